#include "libquant/lint/lint.h"

#include <algorithm>

#include "libquant/lint/rules.h"

namespace quant {

std::vector<PlacedNode> NodesEverywhere(const Model& model) {
  std::vector<PlacedNode> out;
  for (NodeId n : model.graph.AllNodes()) out.push_back({&model.graph, n});
  for (const Function& function : model.functions) {
    for (NodeId n : function.body.AllNodes()) out.push_back({&function.body, n});
  }
  return out;
}

std::string Count(size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

StatusOr<std::vector<Finding>> Lint(Model& model, const LintOptions& options) {
  std::vector<Finding> out;
  LintSoundness(model, out);
  LintInterface(model, options, out);
  LintOperators(model, options, out);
  LintIntegers(model, options, out);
  LintNodes(model, out);
  RETURN_IF_ERROR(LintWeights(model, options, out));
  LintFiles(model, out);
  std::stable_sort(out.begin(), out.end(), [](const Finding& a, const Finding& b) {
    return std::pair(a.severity, a.finding) < std::pair(b.severity, b.finding);
  });
  return out;
}

std::vector<Finding> LintQuantizers(const Model& model, const Target& target) {
  LintOptions options;
  options.target = target;
  std::vector<Finding> out;
  LintIntegers(model, options, out);
  return out;
}

}  // namespace quant
