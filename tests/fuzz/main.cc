// The fuzzer's driver where there is no libFuzzer. Exit code 0: no fault, 1: faults, 77: no models, else bad usage.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/change_model.h"
#include "tests/fuzz/load_and_run.h"

namespace quant {
namespace {

constexpr int kExitSkipped = 77;  // ctest's sign of a test that did not run

int Replay(FuzzTarget target, const std::vector<std::string>& paths) {
  int faults = 0;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    for (const Ending& ending : target(path, bytes)) {
      fmt::print("{}: {}: exit code {}: {}\n", path, NameOf(ending.stage), ExitCode(ending.status),
                 ending.status.ok() ? "done" : Message(ending.status));
      faults += ending.allowed() ? 0 : 1;
    }
  }
  return faults == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Loads and runs models as they are and says how each ends; or, with --mutations, models and seeded changes "
      "of them, and counts faults. With --tools, looks models over and changes them as check, fuse, fixshape and "
      "convert do; those that answered must answer the same.");
  CampaignOptions options;
  options.folder = "fuzz.out";
  std::vector<std::string> paths;
  app.add_option("paths", paths, "files, or folders of models")->required()->check(CLI::ExistingPath);
  const CLI::Option* campaign =
      app.add_option("--mutations", options.mutations, "of each model, after the model itself");
  app.add_option("--seed", options.seed, "other cases; the same seed gives the same");
  app.add_option("--seconds", options.seconds, "ends after that time");
  app.add_option("--folder", options.folder, "where cases at fault are kept; default fuzz.out");
  bool tools = false;
  app.add_flag("--tools", tools, "change models instead of running them only");
  CLI11_PARSE(app, argc, argv);
  options.target = tools ? ChangeModel : LoadAndRun;
  if (campaign->count() == 0) return Replay(options.target, paths);
  const std::vector<CorpusEntry> corpus = LoadCorpus(paths);
  if (corpus.empty()) return kExitSkipped;
  return RunCampaign(corpus, options) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace quant

int main(int argc, char** argv) {
  try {
    return quant::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
