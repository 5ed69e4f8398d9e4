// docs/passes.md is what passes.def and the pipelines say; NIBBLE_REBASE=1 writes it anew.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "passes/pipeline.h"
#include "tests/catch.h"

namespace quant {
namespace {

constexpr const char* kHead = R"(# Passes

Written from the definitions (tests/passes/passes_doc_test.cc). `nibble fuse --passes NAME` runs one of them; the pipelines
(configs/pipelines) are lists that `nibble fuse` and other tools run, again and again until nothing changes. Each pass's
conditions are told at the top of its file, and by `--explain` where one of them did not hold. A pass that has no pipeline
runs only when it is named.

| pass | does | pipelines |
|---|---|---|
)";

std::string Doc() {
  std::string out = kHead;
  for (const Pass* pass : AllPasses()) {
    std::string in;
    for (const std::string& name : PipelineNames()) {
      const auto passes = ReadPipeline(name);
      INFO(Message(passes.status()));
      REQUIRE(passes.ok());
      const bool has = std::find(passes->begin(), passes->end(), pass) != passes->end();
      if (has) in += (in.empty() ? "" : ", ") + name;
    }
    out += fmt::format("| `{}` | {} | {} |\n", pass->name, pass->summary, in);
  }
  return out;
}

}  // namespace

TEST_CASE("docs/passes.md is current") {
  const std::string path = std::string(NIBBLE_SOURCE_DIR) + "/docs/passes.md";
  if (std::getenv("NIBBLE_REBASE") != nullptr) std::ofstream(path) << Doc();
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  CHECK(text.str() == Doc());
}

TEST_CASE("a pass is found by its name, which is its own") {
  std::set<std::string_view> names;
  for (const Pass* pass : AllPasses()) {
    CHECK(FindPass(pass->name) == pass);
    CHECK(names.insert(pass->name).second);
    CHECK((pass->rule != nullptr) + (pass->run != nullptr) + (pass->run_model != nullptr) == 1);
    CHECK_FALSE(pass->summary.empty());
  }
}

}  // namespace quant
