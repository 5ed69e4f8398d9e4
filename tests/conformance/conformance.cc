// Runs ONNX's backend conformance cases through ReadModel and Session and compares with their stored outputs.
// Cases named in passing.txt must pass: the list may only grow. Each case runs in a process of its own, so that a
// crash or a hang is one case's failure.
//
// Cases with an operator of excluded.txt are outside the scope; of those within, kNodeShare of the single operators
// ("node") and all of the other suites must pass.
//
//   conformance_test              exit code 1 when a case of the list fails, 77 when there is no data
//   conformance_test --update     adds newly passing cases to the list
//   conformance_test --verbose    says why each case that does not pass does not
//   conformance_test CASE...      runs these alone ("node/test_abs") and says how they end
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libquant/base/parallel.h"
#include "libquant/base/status.h"
#include "libquant/exec/session.h"
#include "libquant/model/expand_operators.h"
#include "libquant/model/read.h"
#include "libquant/model/tensor_file.h"
#include "libquant/report/as_double.h"
#include "tests/conformance/excluded.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

// As ONNX's own runner compares.
constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;
constexpr unsigned kSecondsPerCase = 60;
constexpr int kExitSkipped = 77;  // ctest's sign of a test that did not run
const char* const kSuites[] = {"node", "simple", "pytorch-operator", "pytorch-converted", "light"};
constexpr double kNodeShare = 0.97;

enum class Ending { kPassed = 0, kFailed = 1, kUnsupported = 2, kExcluded = 3, kCrashed = 4 };
struct Outcome {
  Ending ending = Ending::kCrashed;
  std::string message;
};

std::vector<std::string> Numbered(const fs::path& folder, const std::string& prefix) {
  std::vector<std::string> out;
  for (int i = 0; fs::exists(folder / fmt::format("{}_{}.pb", prefix, i)); ++i) {
    out.push_back((folder / fmt::format("{}_{}.pb", prefix, i)).string());
  }
  return out;
}

bool Close(double want, double got, bool is_float) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (!is_float || std::isinf(want) || std::isinf(got)) return want == got;
  return std::abs(got - want) <= kAbsolute + kRelative * std::abs(want);
}

Status Compare(const Tensor& want, const Tensor& got) {
  if (want.dtype() != got.dtype() || want.dims() != got.dims()) {
    return DataError("is {}, should be {}", Describe(got), Describe(want));
  }
  if (want.dtype() == DType::kNothing) return OkStatus();
  if (want.strings() != nullptr) {
    return got.strings() != nullptr && *want.strings() == *got.strings() ? OkStatus() : DataError("strings differ");
  }
  const DTypeInfo& info = InfoOf(want.dtype());
  if (info.bits >= 8 && (!info.is_float || info.bits == 8)) {  // integers are exact, beyond what a double holds
    return std::equal(want.bytes().begin(), want.bytes().end(), got.bytes().begin()) ? OkStatus()
                                                                                     : DataError("bytes differ");
  }
  std::vector<double> ours(static_cast<size_t>(got.size()));
  std::vector<double> theirs(ours.size());
  RETURN_IF_ERROR(ReadAsDouble(got, 0, ours));
  RETURN_IF_ERROR(ReadAsDouble(want, 0, theirs));
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!Close(theirs[i], ours[i], info.is_float)) {
      return DataError("element {} is {}, should be {}", i, ours[i], theirs[i]);
    }
  }
  return OkStatus();
}

Status CompareValues(const Tensor& want, const Tensor& got) {
  if (want.list() == nullptr) return Compare(want, got);
  if (got.list() == nullptr || got.size() != want.size()) {
    return DataError("is {}, should be {}", Describe(got), Describe(want));
  }
  for (size_t i = 0; i < want.list()->size(); ++i) {
    RETURN_IF_ERROR(WithContext(Compare((*want.list())[i], (*got.list())[i]), fmt::format("item {}", i)));
  }
  return OkStatus();
}

ValueId FindValue(const std::vector<ValueId>& values, const Graph& graph, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](ValueId v) { return graph.value(v).name == name; });
  return *found;
}

Status RunDataSet(const Model& model, Session& session, const fs::path& folder) {
  const std::vector<InputSpec> inputs = RequiredInputs(model);
  const std::vector<std::string> input_files = Numbered(folder, "input");
  const std::vector<std::string> output_files = Numbered(folder, "output");
  if (input_files.size() != inputs.size()) {
    return DataError("{} inputs are stored, the model takes {}", input_files.size(), inputs.size());
  }
  NamedTensors feeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId input = FindValue(model.graph.main().inputs, model.graph, inputs[i].name);
    ASSIGN_OR_RETURN(auto stored, ReadValueFile(input_files[i], model.graph.value(input)));
    feeds.emplace_back(inputs[i].name, std::move(stored.second));
  }
  ASSIGN_OR_RETURN(const NamedTensors got, session.Run(feeds));
  if (output_files.empty() || output_files.size() > got.size()) {
    return DataError("{} outputs are stored, the model makes {}", output_files.size(), got.size());
  }
  for (size_t i = 0; i < output_files.size(); ++i) {
    const Value& output = model.graph.value(model.graph.main().outputs[i]);
    ASSIGN_OR_RETURN(const auto want, ReadValueFile(output_files[i], output));
    RETURN_IF_ERROR(WithContext(CompareValues(want.second, got[i].second), "output " + got[i].first));
  }
  return OkStatus();
}

// Why a model is outside the scope, by the first of its operators that is left out; empty when it is within.
std::string WhyExcluded(const Model& model) {
  const std::map<std::string, std::string> excluded = ReadExcluded();
  for (NodeId n : model.graph.AllNodes()) {
    const Node& node = model.graph.node(n);
    const auto found = excluded.find(node.domain.empty() ? node.op_type : node.domain);
    if (found != excluded.end()) return fmt::format("{}: {}", node.op_type, found->second);
  }
  return "";
}

// Elements 0, 1/n, 2/n, ...: what ONNX feeds the light models.
Tensor Ramp(const Shape& shape) {
  Dims dims;
  for (const Dim& dim : shape) dims.push_back(dim.known() ? dim.value : 1);
  Tensor out = Tensor::Allocate(DType::kFloat, dims);
  const auto count = static_cast<double>(out.size());
  for (int64_t i = 0; i < out.size(); ++i) {
    out.mutable_data<float>()[static_cast<size_t>(i)] = static_cast<float>(static_cast<double>(i) / count);
  }
  return out;
}

// folder/NAME.onnx with folder/NAME_output_0.pb, ...
Status RunLight(const Model& model, Session& session, const fs::path& stem) {
  NamedTensors feeds;
  for (const InputSpec& input : RequiredInputs(model)) feeds.emplace_back(input.name, Ramp(input.shape.value()));
  ASSIGN_OR_RETURN(const NamedTensors got, session.Run(feeds));
  for (size_t i = 0; i < got.size(); ++i) {
    const Value& output = model.graph.value(model.graph.main().outputs[i]);
    ASSIGN_OR_RETURN(const auto want, ReadValueFile(fmt::format("{}_output_{}.pb", stem.string(), i), output));
    RETURN_IF_ERROR(WithContext(CompareValues(want.second, got[i].second), "output " + got[i].first));
  }
  return OkStatus();
}

StatusOr<std::string> RunCase(const fs::path& folder) {
  const bool light = !fs::is_directory(folder);
  ASSIGN_OR_RETURN(Model model, ReadModel(light ? folder.string() + ".onnx" : (folder / "model.onnx").string()));
  std::string why = WhyExcluded(model);
  if (!why.empty()) return why;
  RETURN_IF_ERROR(ExpandOperators(model));
  ASSIGN_OR_RETURN(const auto session, Session::Create(model));
  if (light) {
    RETURN_IF_ERROR(RunLight(model, *session, folder));
    return "";
  }
  int sets = 0;
  for (; fs::exists(folder / fmt::format("test_data_set_{}", sets)); ++sets) {
    RETURN_IF_ERROR(RunDataSet(model, *session, folder / fmt::format("test_data_set_{}", sets)));
  }
  if (sets == 0) return DataError("no test_data_set_0");
  return "";
}

[[noreturn]] void RunInChild(const fs::path& folder, int result) {
  alarm(kSecondsPerCase);
  StatusOr<std::string> excluded = "";
  try {
    excluded = RunCase(folder);
  } catch (const std::exception& e) {
    excluded = BugError("an exception left the library: {}", e.what());
  }
  const std::string message = excluded.ok() ? *excluded : Message(excluded.status());
  Ending ending = message.empty() ? Ending::kPassed : Ending::kExcluded;
  if (!excluded.ok()) ending = ExitCode(excluded.status()) == 4 ? Ending::kUnsupported : Ending::kFailed;
  const ssize_t written = write(result, message.data(), std::min<size_t>(message.size(), 4096));
  _exit(written < 0 ? static_cast<int>(Ending::kCrashed) : static_cast<int>(ending));
}

Outcome RunIsolated(const fs::path& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {Ending::kCrashed, "no pipe"};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return {Ending::kCrashed, "no process"};
  if (child == 0) RunInChild(folder, ends[1]);
  close(ends[1]);
  Outcome out;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    out.message.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {Ending::kCrashed, fmt::format("ended by signal {}", WTERMSIG(status))};
  const int code = WEXITSTATUS(status);
  if (code > static_cast<int>(Ending::kExcluded)) return {Ending::kCrashed, fmt::format("exit code {}", code)};
  out.ending = static_cast<Ending>(code);
  return out;
}

std::vector<std::string> AllCases(const fs::path& data) {
  std::vector<std::string> out;
  for (const char* suite : kSuites) {
    if (!fs::is_directory(data / suite)) continue;
    for (const auto& entry : fs::directory_iterator(data / suite)) {
      const bool light = entry.path().extension() == ".onnx";
      if (light) out.push_back(suite + ("/" + entry.path().stem().string()));
      if (fs::exists(entry.path() / "model.onnx")) out.push_back(suite + ("/" + entry.path().filename().string()));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::set<std::string> ReadList(const fs::path& path) {
  std::set<std::string> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') out.insert(line);
  }
  return out;
}

bool WriteList(const fs::path& path, const std::set<std::string>& names) {
  std::ofstream out(path);
  out << "# ONNX backend cases that the executor passes, by `conformance_test --update`. A case here that fails is a\n"
         "# test failure: the list may only grow.\n";
  for (const std::string& name : names) out << name << "\n";
  return out.good();
}

const char* NameOf(Ending ending) {
  constexpr const char* kNames[] = {"passed", "FAILED", "not supported", "outside the scope", "CRASHED"};
  return kNames[static_cast<int>(ending)];
}

struct Options {
  bool update = false;
  bool verbose = false;
  std::vector<std::string> only;
};

int RunAll(const fs::path& data, const fs::path& list_path, const Options& options) {
  std::set<std::string> listed = ReadList(list_path);
  const std::vector<std::string> cases = AllCases(data);
  if (cases.empty()) {
    fmt::print("FAIL: {} holds no cases\n", data.string());
    return 1;
  }
  std::map<std::string, std::map<Ending, int>> totals;  // by suite
  std::vector<std::string> lost;
  std::vector<std::string> gained;
  for (const std::string& name : cases) {
    const Outcome outcome = RunIsolated(data / name);
    ++totals[name.substr(0, name.find('/'))][outcome.ending];
    const bool passed = outcome.ending == Ending::kPassed;
    if (passed && !listed.contains(name)) gained.push_back(name);
    if (!passed && listed.contains(name)) lost.push_back(fmt::format("{}: {}", name, outcome.message));
    if (!passed && (options.verbose || outcome.ending == Ending::kCrashed)) {
      fmt::print("{}: {}: {}\n", name, NameOf(outcome.ending), outcome.message);
    }
  }
  for (const std::string& name : listed) {
    if (!std::binary_search(cases.begin(), cases.end(), name)) lost.push_back(name + ": is not in the data");
  }
  bool enough = true;
  for (auto& [suite, counts] : totals) {
    int scope = 0;
    for (const auto& [ending, count] : counts) scope += ending == Ending::kExcluded ? 0 : count;
    const double share = scope == 0 ? 1 : static_cast<double>(counts[Ending::kPassed]) / scope;
    fmt::print("{}: {} of {} cases within the scope pass ({:.1f} %); {} not supported, {} fail, {} crash; {} outside\n",
               suite, counts[Ending::kPassed], scope, 100 * share, counts[Ending::kUnsupported],
               counts[Ending::kFailed], counts[Ending::kCrashed], counts[Ending::kExcluded]);
    if (share >= (suite == "node" ? kNodeShare : 1)) continue;
    fmt::print("FAIL: too few of {}\n", suite);
    enough = false;
  }
  for (const std::string& line : lost) fmt::print("LOST {}\n", line);
  fmt::print("{} cases of the list pass no more, {} pass that are not in it{}\n", lost.size(), gained.size(),
             gained.empty() || options.update ? "" : " (--update adds them)");
  if (options.update) {
    listed.insert(gained.begin(), gained.end());
    if (!WriteList(list_path, listed)) fmt::print("FAIL: {} can't be written\n", list_path.string());
  }
  return lost.empty() && enough ? 0 : 1;
}

int RunOnly(const fs::path& data, const Options& options) {
  int failures = 0;
  for (const std::string& name : options.only) {
    const Outcome outcome = RunIsolated(data / name);
    fmt::print("{}: {} {}\n", name, NameOf(outcome.ending), outcome.message);
    failures += outcome.ending == Ending::kPassed ? 0 : 1;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quant

int main(int argc, char** argv) {
  quant::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--update") {
      options.update = true;
    } else if (argument == "--verbose") {
      options.verbose = true;
    } else {
      options.only.push_back(argument);
    }
  }
  const std::filesystem::path data = NIBBLE_ONNX_DATA;
  if (data.empty() || !std::filesystem::is_directory(data)) {
    std::fputs(
        "WARNING: NO CONFORMANCE CASE WAS RUN: ONNX's backend data is not there.\n"
        "Configure with -DNIBBLE_ONNX_DATA=<onnx source>/onnx/backend/test/data (./dev does).\n",
        stderr);
    return quant::kExitSkipped;
  }
  quant::SetThreads(1);
  if (!options.only.empty()) return quant::RunOnly(data, options);
  const std::filesystem::path list = NIBBLE_SOURCE_DIR "/tests/conformance/passing.txt";
  return quant::RunAll(data, list, options);
}
