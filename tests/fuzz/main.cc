// The fuzzer's driver where there is no libFuzzer.
//
//   load_and_run FILE...                            runs these files as they are and says how each ends
//   load_and_run --mutations N [OPTION...] PATH...  runs every model of the paths, and N seeded changes of each
//     --seed S       other cases; the same seed gives the same
//     --seconds T    ends after that time
//     --folder DIR   where cases at fault are kept; the default is fuzz.out
//
// Exit code 0: no fault, 1: faults, 2: bad usage, 77: no models.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/load_and_run.h"

namespace quant {
namespace {

constexpr int kExitSkipped = 77;  // ctest's sign of a test that did not run

int Replay(const std::vector<std::string>& paths) {
  int faults = 0;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const LoadAndRunResult result = LoadAndRun(path, SeedOf(bytes));
    fmt::print("{}: exit code {}: {}\n", path, ExitCode(result.status),
               result.status.ok() ? "ran" : Message(result.status));
    faults += result.allowed() ? 0 : 1;
  }
  return faults == 0 ? 0 : 1;
}

int Main(const std::vector<std::string>& arguments) {
  CampaignOptions options;
  options.folder = "fuzz.out";
  bool campaign = false;
  std::vector<std::string> paths;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].rfind("--", 0) != 0) {
      paths.push_back(arguments[i]);
      continue;
    }
    if (i + 1 == arguments.size()) return 2;
    const std::string& value = arguments[i + 1];
    if (arguments[i] == "--mutations")
      options.mutations = std::stoll(value);
    else if (arguments[i] == "--seed")
      options.seed = std::stoull(value);
    else if (arguments[i] == "--seconds")
      options.seconds = std::stod(value);
    else if (arguments[i] == "--folder")
      options.folder = value;
    else
      return 2;
    campaign = true;
    ++i;
  }
  if (!campaign) return Replay(paths);
  const std::vector<CorpusEntry> corpus = LoadCorpus(paths);
  if (corpus.empty()) return kExitSkipped;
  return RunCampaign(corpus, options) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quant

int main(int argc, char** argv) {
  try {
    return quant::Main({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
