#include "libquant/model/external_files.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace quant {
namespace {

namespace fs = std::filesystem;

// A decimal number >= 0 that fits, or nullopt.
std::optional<int64_t> ParseSize(const std::string& text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

bool IsInside(const fs::path& file, const fs::path& folder) {
  const auto [rest, unused] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return rest == folder.end();
}

}  // namespace

ExternalFiles::ExternalFiles(const std::string& model_path) : folder_(fs::path(model_path).parent_path()) {
  if (folder_.empty()) folder_ = ".";
}

StatusOr<std::shared_ptr<const File>> ExternalFiles::Open(const std::string& location) {
  if (auto known = by_location_.find(location); known != by_location_.end()) return known->second;
  if (location.empty()) return DataError("its data is external but no location is given");
  if (location.find('\0') != std::string::npos) return DataError("its external data location holds a zero byte");
  const fs::path relative(location);
  if (relative.is_absolute() || std::find(relative.begin(), relative.end(), "..") != relative.end()) {
    return DataError(
        "its external data '{}' lies outside the model's folder, which is refused; move the file beside the model and "
        "name it there",
        location);
  }
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  if (error) return DataError("cannot open the model's folder {}: {}", folder_.string(), error.message());
  const fs::path target = fs::canonical(folder / relative, error);
  if (error) {
    return DataError("its external data file {} cannot be opened: {}; it belongs beside the model",
                     (folder_ / relative).string(), error.message());
  }
  if (!IsInside(target, folder)) {
    return DataError(
        "its external data '{}' is a link that leaves the model's folder, which is refused; copy the file itself "
        "beside the model",
        location);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const File> file, File::Open(target.string()));
  const auto same = std::find_if(files_.begin(), files_.end(), [&](const auto& f) { return f->id() == file->id(); });
  if (same != files_.end()) {
    file = *same;
  } else {
    files_.push_back(file);
  }
  by_location_[location] = file;
  return file;
}

StatusOr<FileRange> ExternalFiles::Resolve(const onnx::TensorProto& tensor) {
  std::string location;
  FileRange range;
  std::optional<int64_t> length;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const auto value = ParseSize(entry.value());
    if (!value) return DataError("its external data has {} '{}', which is no size", entry.key(), entry.value());
    if (entry.key() == "offset") range.offset = *value;
    if (entry.key() == "length") length = *value;
  }
  ASSIGN_OR_RETURN(range.file, Open(location));
  const int64_t size = range.file->size();
  if (range.offset > size || length.value_or(0) > size - range.offset) {
    return DataError(
        "its external data needs {} bytes at offset {} of '{}', which has only {}; the file is truncated "
        "or belongs to another model",
        length ? std::to_string(*length) : "the", range.offset, location, size);
  }
  range.length = length.value_or(size - range.offset);
  return range;
}

}  // namespace quant
