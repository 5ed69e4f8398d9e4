#include "libquant/data/samples.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>

#include "libquant/base/file.h"
#include "libquant/data/sample_folders.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

StatusOr<std::vector<std::string>> Listing(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> out;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    out.push_back(it->path().filename().string());
  }
  if (error) return DataError("can't list {}: {}", folder, error.message());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> WithSuffix(const std::vector<std::string>& names, std::string_view suffix) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    // A leading dot hides a file: such are left behind by other systems.
    if (name.size() > suffix.size() && name[0] != '.' && name.substr(name.size() - suffix.size()) == suffix) {
      out.push_back(name);
    }
  }
  return out;
}

std::string Join(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

// INPUT.npy files as the members of one archive.
StatusOr<std::vector<NpzMember>> OpenArrays(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<NpzMember> members;
  for (const std::string& name : names) {
    const std::string path = Join(folder, name);
    ASSIGN_OR_RETURN(auto bytes, OpenFileStream(path));
    ASSIGN_OR_RETURN(auto array, ArrayStream::Open(path, std::move(bytes)));
    members.push_back({name.substr(0, name.size() - 4), std::move(array)});
  }
  return members;
}

StatusOr<std::unique_ptr<SampleSource>> OpenFolder(const std::string& path, std::vector<InputSpec> inputs,
                                                   TensorFileReader reader) {
  ASSIGN_OR_RETURN(const std::vector<std::string> sets, NumberedEntries(path, "test_data_set_", ""));
  if (!sets.empty()) return TestDataSets(sets, std::move(inputs), std::move(reader));
  ASSIGN_OR_RETURN(const std::vector<std::string> tensors, NumberedEntries(path, "input_", ".pb"));
  if (!tensors.empty()) return TestDataSets({path}, std::move(inputs), std::move(reader));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Listing(path));
  const std::vector<std::string> archives = WithSuffix(names, ".npz");
  const std::vector<std::string> arrays = WithSuffix(names, ".npy");
  if (!archives.empty() && !arrays.empty()) {
    return DataError("{} holds both .npz and .npy files; give a folder of one kind, or one file", path);
  }
  if (!archives.empty()) {
    std::vector<std::string> paths;
    for (const std::string& name : archives) paths.push_back(Join(path, name));
    return ArchiveSamples(std::move(paths), std::move(inputs));
  }
  if (arrays.empty()) {
    return DataError("{} holds no samples: no .npz, no .npy, no test_data_set_* and no input_N.pb", path);
  }
  ASSIGN_OR_RETURN(std::vector<NpzMember> members, OpenArrays(path, arrays));
  return ArraySamples(path, std::move(members), inputs);
}

StatusOr<std::unique_ptr<SampleSource>> OpenOneArray(const std::string& path, const std::vector<InputSpec>& inputs) {
  if (inputs.size() != 1) {
    return DataError("{} is one array, the model has {} inputs; give an .npz with an array for each", path,
                     inputs.size());
  }
  ASSIGN_OR_RETURN(auto bytes, OpenFileStream(path));
  ASSIGN_OR_RETURN(auto array, ArrayStream::Open(path, std::move(bytes)));
  std::vector<NpzMember> members;
  members.push_back({inputs[0].name, std::move(array)});
  return ArraySamples(path, std::move(members), inputs);
}

}  // namespace

StatusOr<std::vector<std::string>> NumberedEntries(const std::string& folder, const std::string& prefix,
                                                   const std::string& suffix) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Listing(folder));
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const std::string& name : names) {
    if (name.size() <= prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0 ||
        name.substr(name.size() - suffix.size()) != suffix) {
      continue;
    }
    uint64_t number = 0;
    const char* begin = name.data() + prefix.size();
    const char* end = name.data() + name.size() - suffix.size();
    const auto [stop, error] = std::from_chars(begin, end, number);
    if (error == std::errc() && stop == end) found.emplace_back(number, Join(folder, name));
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  for (auto& [number, path] : found) out.push_back(std::move(path));
  return out;
}

StatusOr<std::unique_ptr<SampleSource>> OpenSamples(const std::string& path, std::vector<InputSpec> inputs,
                                                    TensorFileReader reader) {
  std::error_code error;
  if (fs::is_directory(path, error)) return OpenFolder(path, std::move(inputs), std::move(reader));
  ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, File::Open(path));
  std::array<std::byte, 4> start{};
  const auto length = static_cast<size_t>(std::min<int64_t>(file->size(), 4));
  RETURN_IF_ERROR(file->Read(0, std::span(start).first(length)));
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), length);
  if (magic.substr(0, 2) == "PK") {
    ASSIGN_OR_RETURN(std::vector<NpzMember> members, OpenNpz(path));
    return ArraySamples(path, std::move(members), inputs);
  }
  if (magic == "\x93NUM") return OpenOneArray(path, inputs);
  return DataError("{} is neither .npz nor .npy{}", path, length == 0 ? ": it is empty (0 bytes)" : "");
}

}  // namespace quant
