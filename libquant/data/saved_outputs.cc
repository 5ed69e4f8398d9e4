#include "libquant/data/saved_outputs.h"

#include <filesystem>

#include "libquant/data/npy.h"

namespace quant {
namespace {

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

std::string OutputFileOf(const std::string& path, int64_t sample) {
  return fmt::format("{}_{}.npz", path.substr(0, path.size() - 4), sample);
}

StatusOr<SavedOutputs> SavedOutputs::Open(const std::string& path, int64_t samples) {
  SavedOutputs out;
  if (!Exists(path) && Exists(OutputFileOf(path, 0))) {
    int64_t count = 0;
    while (Exists(OutputFileOf(path, count))) out.files_.push_back(OutputFileOf(path, count++));
    if (count == samples) return out;
    return DataError("{} to {} are outputs of {} samples, but {} are run", out.files_.front(), out.files_.back(), count,
                     samples);
  }
  out.files_ = {path};
  ASSIGN_OR_RETURN(std::vector<NpzMember> members, OpenNpz(path));
  if (members.empty()) return DataError("{} holds no outputs", path);
  if (samples == 1) return out;
  for (const NpzMember& member : members) {
    const Dims& dims = member.array->dims();
    if (!dims.empty() && dims[0] == samples) continue;
    return DataError("{} is {}[{}]: outputs of {} samples have {} rows", member.array->what(),
                     NameOf(member.array->dtype()), ToString(dims), samples, samples);
  }
  out.stacked_ = std::move(members);
  return out;
}

StatusOr<NamedTensors> SavedOutputs::Load(int64_t sample) {
  if (stacked_.empty()) return ReadNpz(files_[static_cast<size_t>(sample)]);
  NamedTensors out;
  for (NpzMember& member : stacked_) {
    ASSIGN_OR_RETURN(Tensor row, member.array->ReadRow(sample));
    out.emplace_back(member.name, std::move(row));
  }
  return out;
}

}  // namespace quant
