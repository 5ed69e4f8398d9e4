#include <algorithm>

#include "libquant/data/fit_inputs.h"
#include "libquant/data/sample_folders.h"

namespace quant {
namespace {

// An input and the array that feeds it.
struct Feed {
  std::string name;
  std::unique_ptr<ArrayStream> array;
  Fit fit = Fit::kWhole;
  std::optional<Tensor> whole;  // kept: it goes with every sample
};

class ArraySource : public SampleSource {
 public:
  ArraySource(int64_t count, std::vector<Feed> feeds) : count_(count), feeds_(std::move(feeds)) {}
  int64_t count() const override { return count_; }

  StatusOr<NamedTensors> Load(int64_t i) override {
    NamedTensors out;
    for (Feed& feed : feeds_) {
      if (feed.fit == Fit::kRows) {
        ASSIGN_OR_RETURN(Tensor row, feed.array->ReadRow(i));
        out.emplace_back(feed.name, std::move(row));
        continue;
      }
      if (!feed.whole) {
        ASSIGN_OR_RETURN(feed.whole, feed.array->ReadAll());
      }
      out.emplace_back(feed.name, *feed.whole);
    }
    return out;
  }

 private:
  int64_t count_;
  std::vector<Feed> feeds_;
};

// The member of each input, in the inputs' order.
StatusOr<std::vector<Feed>> MatchFeeds(const std::string& what, std::vector<NpzMember> members,
                                       const std::vector<InputSpec>& inputs) {
  std::vector<std::string> names;
  for (const NpzMember& member : members) names.push_back(member.name);
  RETURN_IF_ERROR(FitNames(what, names, inputs));
  std::vector<Feed> feeds;
  for (const InputSpec& input : inputs) {
    const auto it = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.name == input.name; });
    Feed& feed = feeds.emplace_back();
    feed.name = input.name;
    feed.array = std::move(it->array);
    ASSIGN_OR_RETURN(feed.fit, FitArray(feed.array->what(), feed.array->dtype(), feed.array->dims(), input));
  }
  return feeds;
}

// Whether `input`, which takes its array whole, has a dimension past the first that can only be the batch of `count`
// rows which `rows` has as its first: of that name or without one, and of that length.
bool HoldsBatch(const InputSpec& input, const Dims& dims, const Dim& rows, int64_t count) {
  if (!input.shape) return false;
  const bool fixed_lead = !dims.empty() && (*input.shape)[0].known();
  for (size_t axis = 1; axis < dims.size(); ++axis) {
    const Dim& dim = (*input.shape)[axis];
    if (dim.known() || dims[axis] != count) continue;
    if (!dim.symbol.empty() && dim.symbol == rows.symbol) return true;
    // Without names on both sides only an input whose own first dimension is no batch tells.
    if (fixed_lead && (dim.symbol.empty() || rows.symbol.empty())) return true;
  }
  return false;
}

// Whether the model takes all rows at once because another of its inputs has them on another axis: then there is no
// sample to split off.
bool IsOneBatch(const std::vector<Feed>& feeds, const std::vector<InputSpec>& inputs) {
  bool held = false;
  for (size_t f = 0; f < feeds.size(); ++f) {
    if (feeds[f].fit != Fit::kRows) continue;
    const Dim& rows = (*inputs[f].shape)[0];
    if (rows.known()) return false;  // it takes one at a time
    for (size_t g = 0; g < feeds.size(); ++g) {
      held = held || HoldsBatch(inputs[g], feeds[g].array->dims(), rows, feeds[f].array->dims()[0]);
    }
  }
  return held;
}

class ArchiveSource : public SampleSource {
 public:
  ArchiveSource(std::vector<std::string> paths, std::vector<InputSpec> inputs)
      : paths_(std::move(paths)), inputs_(std::move(inputs)) {}
  int64_t count() const override { return static_cast<int64_t>(paths_.size()); }

  StatusOr<NamedTensors> Load(int64_t i) override {
    const std::string& path = paths_[static_cast<size_t>(i)];
    ASSIGN_OR_RETURN(std::vector<NpzMember> members, OpenNpz(path));
    ASSIGN_OR_RETURN(std::vector<Feed> feeds, MatchFeeds(path, std::move(members), inputs_));
    NamedTensors out;
    for (size_t f = 0; f < feeds.size(); ++f) {
      const auto& shape = inputs_[f].shape;
      if (feeds[f].fit == Fit::kRows && (*shape)[0].known()) {
        return DataError("{} has {} rows; in a folder each archive is one sample, and input {} wants {}",
                         feeds[f].array->what(), feeds[f].array->dims()[0], feeds[f].name, ToString(*shape));
      }
      ASSIGN_OR_RETURN(Tensor tensor, feeds[f].array->ReadAll());
      out.emplace_back(feeds[f].name, std::move(tensor));
    }
    return out;
  }

 private:
  std::vector<std::string> paths_;
  std::vector<InputSpec> inputs_;
};

}  // namespace

StatusOr<std::unique_ptr<SampleSource>> ArraySamples(const std::string& what, std::vector<NpzMember> members,
                                                     const std::vector<InputSpec>& inputs) {
  ASSIGN_OR_RETURN(std::vector<Feed> feeds, MatchFeeds(what, std::move(members), inputs));
  if (IsOneBatch(feeds, inputs)) {
    for (Feed& feed : feeds) feed.fit = Fit::kWhole;
  }
  int64_t count = 1;
  const Feed* first = nullptr;
  for (const Feed& feed : feeds) {
    if (feed.fit != Fit::kRows) continue;
    const int64_t rows = feed.array->dims()[0];
    if (first != nullptr && rows != count) {
      return DataError("{}: {} samples of {} but {} of {}", what, count, first->name, rows, feed.name);
    }
    first = &feed;
    count = rows;
  }
  return std::unique_ptr<SampleSource>(std::make_unique<ArraySource>(count, std::move(feeds)));
}

std::unique_ptr<SampleSource> ArchiveSamples(std::vector<std::string> paths, std::vector<InputSpec> inputs) {
  return std::make_unique<ArchiveSource>(std::move(paths), std::move(inputs));
}

}  // namespace quant
