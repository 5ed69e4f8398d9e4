#include "tools/argument_groups.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "libquant/base/file.h"
#include "libquant/base/parallel.h"
#include "libquant/exec/session.h"
#include "libquant/model/tensor_file.h"
#include "tools/units.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxThreads = 1024;

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The files that a path stands for: itself, or what is in the folder and one below.
std::vector<std::string> FilesUnder(const std::string& path) {
  std::vector<std::string> out;
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it.depth() >= 1) it.disable_recursion_pending();
    if (it->is_regular_file(error)) out.push_back(it->path().string());
  }
  return out;
}

Status CheckFolder(const std::string& output) {
  fs::path folder = fs::path(output).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code error;
  if (!fs::is_directory(folder, error)) return OutputError("{}: the folder {} does not exist", output, folder.string());
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return OutputError("{}: the folder {} cannot be written to", output, folder.string());
  }
  if (fs::is_directory(output, error)) return OutputError("{} is a folder", output);
  return OkStatus();
}

// Reads stored values as what the model's inputs and outputs are.
TensorFileReader ReaderFor(const Graph& graph) {
  std::vector<ValueId> inputs;
  for (ValueId v : graph.main().inputs) {
    if (!graph.value(v).is_initializer) inputs.push_back(v);
  }
  return [&graph, inputs](const std::string& path, FileSlot slot) {
    const std::vector<ValueId>& values = slot.output ? graph.main().outputs : inputs;
    return slot.index < values.size() ? ReadValueFile(path, graph.value(values[slot.index])) : ReadTensorFile(path);
  };
}

}  // namespace

void CommonArgs::Declare(Args& args) {
  args.Group("General");
  args.Value("--threads", "N", &threads_, "threads to use; 0, the default, is all cores. Results don't depend on it");
  args.Flag("--json", &json_, "print the report as JSON on standard output instead of tables");
  if (rendered_) {
    args.Value("--report", "FILE", &report_,
               "write the report to a file as well: .json, .html (one page), .md (for a comment on a pull request) or "
               ".xml (JUnit)");
  } else {
    args.Value("--report", "FILE.json", &report_, "write the report as JSON to a file as well");
  }
  args.Flag("-q,--quiet", &quiet_, "no tables, progress or warnings: errors only");
}

void CommonArgs::DeclareRendered(Args& args) {
  rendered_ = true;
  Declare(args);
}

Status CommonArgs::Apply() const {
  if (threads_ < 0 || threads_ > kMaxThreads) return UsageError("--threads takes 0 to {}", kMaxThreads);
  if (report_ && rendered_) {
    RETURN_IF_ERROR(ReportFormatOf(*report_).status());
  } else if (report_ && !EndsWith(*report_, ".json")) {
    return UsageError("--report {}: the form of a report is told by the file's name, which must end in .json",
                      *report_);
  }
  SetThreads(static_cast<int>(threads_));
  return OkStatus();
}

Status CommonArgs::Emit(const std::string& text, const Json& json) const {
  if (json_) {
    const std::string bytes = json.Text();
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  } else if (!quiet_) {
    const std::string shown = Printable(text);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
  }
  return report_ ? WriteFileAtomically(*report_, json.Text()) : OkStatus();
}

Status CommonArgs::Emit(const Report& report, const Json& process) const {
  if (json_) {
    const std::string bytes = ReportJson(report).Merge(process).Text();
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  } else if (!quiet_) {
    const std::string shown = Printable(ReportText(report));
    std::fwrite(shown.data(), 1, shown.size(), stdout);
  }
  if (!report_) return OkStatus();
  ASSIGN_OR_RETURN(const ReportFormat format, ReportFormatOf(*report_));
  return WriteFileAtomically(*report_, RenderReport(report, format));
}

Status FileList::Add(const std::string& role, const std::optional<std::string>& path) {
  if (!path) return OkStatus();
  if (hashed_) {
    ASSIGN_OR_RETURN(ReportFile file, DescribeFile(role, *path));
    report_.files.push_back(std::move(file));
  } else {
    report_.files.push_back({role, *path, 0, ""});
  }
  return OkStatus();
}

Status FileList::AddModel(const std::string& role, const Model& model) {
  for (size_t i = 0; i < model.sources.size(); ++i) {
    RETURN_IF_ERROR(Add(i == 0 ? role : role + " data", model.sources[i]->path()));
  }
  return OkStatus();
}

void CommonArgs::Warn(const std::string& text) const {
  if (!quiet_) fmt::print(stderr, "nibble: warning: {}\n", Printable(text));
}

void SampleArgs::Declare(Args& args, bool dims) {
  has_dims_ = dims;
  args.Group("Samples");
  args.Value("--data", "PATH", &data_,
             "samples: an .npz with one array per input, a folder of .npz or .npy, or ONNX test_data_set_* folders. "
             "Arrays longer than the model's leading dimension of 1 (or dynamic) are split: 400 rows are 400 samples, "
             "run one by one; they are one sample where another input has that batch on another axis, and each .npz "
             "of a folder is one. Inputs that are sequences or optionals come from test_data_set_* folders only");
  args.Value("--random", "N", &random_, "N seeded random samples instead");
  args.Value("--seed", "S", &seed_, "of --random; default 0. The same numbers on every machine");
  args.Value("--dynamic-dim", "N", &dynamic_dim_,
             "size that --random gives to dynamic dimensions other than a leading one; default 8");
  if (!dims) return;
  args.Value("--dim", "NAME=N", &dims_,
             "size that --random gives to the dynamic dimension of this name in the model, or, where it has none, to "
             "INPUT.AXIS, as in x.2=640; may be repeated");
}

Status SampleArgs::Check(const Args& args, bool needed) const {
  if (data_ && random_) return UsageError("--data and --random exclude each other");
  if (needed && !given()) return UsageError("samples are missing: give --data PATH or --random N");
  for (const char* name : {"--seed", "--dynamic-dim", "--dim"}) {
    const bool own = has_dims_ || name != std::string_view("--dim");
    if (own && args.Given(name) && !random_) return UsageError("{} has no effect without --random", name);
  }
  if (random_ && *random_ < 1) return UsageError("--random takes the number of samples, 1 or more");
  if (seed_ < 0) return UsageError("--seed takes 0 or more");
  if (dynamic_dim_ < 1) return UsageError("--dynamic-dim takes 1 or more");
  return ParseDims().status();
}

StatusOr<RandomDims> SampleArgs::ParseDims() const {
  RandomDims out;
  out.others = dynamic_dim_;
  for (const std::string& text : dims_) {
    const size_t equals = text.rfind('=');
    int64_t size = -1;
    if (equals != std::string::npos) {
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, size);
      if (error != std::errc() || stop != end) size = -1;
    }
    if (size < 0 || equals == 0)
      return UsageError("--dim takes NAME=N, a name and a size of 0 or more, not '{}'", text);
    const std::string name = text.substr(0, equals);
    if (!out.named.emplace(name, size).second) return UsageError("--dim {}: it is given twice", name);
  }
  return out;
}

Status SampleArgs::Take(const std::string& word) {
  constexpr std::string_view kRandom = "random:";
  if (!word.starts_with(kRandom)) {
    data_ = word;
    return OkStatus();
  }
  int64_t count = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data() + kRandom.size(), end, count);
  if (error != std::errc() || stop != end || count < 1)
    return UsageError("'{}': give random:N, N random samples", word);
  random_ = count;
  return OkStatus();
}

StatusOr<std::unique_ptr<SampleSource>> SampleArgs::Open(const Model& model) const {
  std::vector<InputSpec> inputs = RequiredInputs(model);
  if (data_) return OpenSamples(*data_, std::move(inputs), ReaderFor(model.graph));
  ASSIGN_OR_RETURN(const RandomDims dims, ParseDims());
  const std::vector<std::string> known = DynamicDims(inputs);
  for (const auto& [name, size] : dims.named) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (known.empty()) return UsageError("--dim {}={} has no effect: no input has a dynamic dimension", name, size);
    std::string list;
    for (const std::string& dim : known) list += (list.empty() ? "" : ", ") + dim;
    return UsageError("--dim {}={}: no input has a dynamic dimension of that name; there {} {}", name, size,
                      known.size() == 1 ? "is" : "are", list);
  }
  return RandomSamples(*random_, static_cast<uint64_t>(seed_), std::move(inputs), dims);
}

StatusOr<std::unique_ptr<SampleSource>> SampleArgs::OpenOrOneRandom(const Model& model) const {
  SampleArgs samples = *this;
  if (!given()) samples.random_ = 1;
  return samples.Open(model);
}

std::string SampleArgs::Describe() const {
  return data_ ? "--data " + *data_ : fmt::format("--random {} --seed {}", *random_, seed_);
}

StatusOr<std::unique_ptr<Session>> CreateSession(const std::string& path, const Model& model,
                                                 const SessionOptions& options) {
  StatusOr<std::unique_ptr<Session>> session = Session::Create(model, options);
  if (session.ok()) return session;
  const std::string message = path + ": " + Message(session.status());
  if (OpsWithoutKernel(model).empty()) return Status(session.status().code(), message);
  return Status(session.status().code(),
                message + "; `nibble inspect` and `nibble quantize` without samples still work on this model");
}

Status CheckOutputs(const std::vector<std::string>& outputs, const std::vector<const Model*>& models,
                    const std::optional<std::string>& data) {
  std::vector<std::pair<std::string, FileId>> inputs;
  for (const Model* model : models) {
    for (const auto& file : model->sources) inputs.emplace_back(file->path(), file->id());
  }
  for (const std::string& path : data ? FilesUnder(*data) : std::vector<std::string>{}) {
    const StatusOr<FileId> id = IdOfFile(path);
    if (id.ok()) inputs.emplace_back(path, *id);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) return UsageError("an output has no name: a path is missing after its option");
    RETURN_IF_ERROR(CheckFolder(outputs[i]));
    const StatusOr<FileId> id = IdOfFile(outputs[i]);
    for (const auto& [path, input] : inputs) {
      if (id.ok() && *id == input) {
        return UsageError("{} is an input ({}): an output must be another file", outputs[i], path);
      }
    }
    for (size_t j = 0; j < i; ++j) {
      const fs::path a = fs::absolute(outputs[i]).lexically_normal();
      if (a == fs::absolute(outputs[j]).lexically_normal()) return UsageError("{} is given twice", outputs[i]);
    }
  }
  return OkStatus();
}

}  // namespace quant
