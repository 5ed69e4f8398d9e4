// docs/check.md says what the definitions say. NIBBLE_REBASE=1 rewrites it.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "libquant/config/target.h"
#include "libquant/lint/finding.h"
#include "tests/catch.h"

namespace quant {
namespace {

std::string Document() {
  std::string out =
      "# What `nibble check` finds\n\nWritten from the definitions by `lint_test` with `NIBBLE_REBASE=1`.\n\n"
      "An error is what a runtime is likely to refuse or to get wrong, a warning what costs accuracy or speed, a note "
      "what is good to know. `--strict` exits with 1 when there are errors or warnings; `--ignore ID` leaves a finding "
      "out. Ids do not change.\n\n| id | severity | what it means | what to do next |\n|---|---|---|---|\n";
  for (const FindingKind& kind : FindingKinds()) {
    out += fmt::format("| `{}` | {} | {} | {} |\n", kind.id, NameOf(kind.severity), kind.about, kind.next);
  }
  out +=
      "\n## Targets\n\nThe lists are from the runtimes' own documentation; the first lines of each file in "
      "`configs/targets` name source and version.\n\n| target | what it is | opsets | open dimensions "
      "|\n|---|---|---|---|\n";
  for (const std::string& name : TargetNames()) {
    const auto target = FindTarget(name);
    REQUIRE(target.ok());
    const std::string most = target->max_opset == Target().max_opset ? "any" : std::to_string(target->max_opset);
    out += fmt::format("| `{}` | {} | {} to {} | {} |\n", name, target->about, target->min_opset, most,
                       target->dynamic_shapes ? "yes" : "no");
  }
  return out;
}

TEST_CASE("docs/check.md is what the definitions say") {
  const std::string path = NIBBLE_SOURCE_DIR "/docs/check.md";
  const std::string document = Document();
  if (std::getenv("NIBBLE_REBASE") != nullptr) std::ofstream(path) << document;
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == document);
}

}  // namespace
}  // namespace quant
