// The target "load and run". The bytes are a model's file; any bytes must end in success or in exit code 3 or 4: never
// in a signal, a sanitizer's report, a hang, or an exception. Entry point of libFuzzer and of the driver in main.cc.
#include "tests/fuzz/load_and_run.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libquant/base/hash_text.h"
#include "libquant/base/parallel.h"
#include "libquant/exec/session.h"
#include "libquant/model/load.h"
#include "tests/fuzz/feeds.h"

namespace quant {
namespace {

Status Run(const Model& model, uint64_t seed, Stage& stage) {
  stage = Stage::kPlan;
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(model, kFuzzLimits));
  ASSIGN_OR_RETURN(const NamedTensors feeds, SeededFeeds(RequiredInputs(model), seed));
  stage = Stage::kRun;
  RunHooks hooks;
  // A probe keeps operators from being done as tails of others: some runs have one.
  if (seed % 4 == 0) hooks.probe = [](const std::string&, const Tensor&) { return OkStatus(); };
  return session->Run(feeds, hooks).status();
}

}  // namespace

Endings LoadAndRun(const std::string& path, const std::string& bytes) {
  const uint64_t seed = HashText(bytes);
  SetThreads(seed % 2 == 0 ? 1 : 2);
  Ending ending;
  const StatusOr<Model> model = LoadToRun(path);
  ending.status = model.ok() ? Run(*model, seed, ending.stage) : model.status();
  return {ending};
}

}  // namespace quant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("nibble-fuzz-{}.onnx", getpid())).string();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::ofstream(path, std::ios::binary) << bytes;
  const quant::Endings endings = quant::LoadAndRun(path, bytes);
  std::filesystem::remove(path);
  if (endings[0].allowed()) return 0;
  fmt::print(stderr, "exit code {}: {}\n", quant::ExitCode(endings[0].status), quant::Message(endings[0].status));
  std::abort();
}
