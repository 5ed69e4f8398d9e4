// Initializers that are graph inputs too are no longer inputs.
//
//   graph(x, w) initializer w        =>        graph(x) initializer w
//
// Exporters of IR 3 had to list them there; later, a listed one is a default that callers may override, so that it is
// no constant to any pass. A model below IR 4 becomes one of IR 4. Bodies keep theirs: their inputs go by position.
#include <algorithm>

#include "libquant/model/opset.h"
#include "passes/pass.h"

namespace quant {
namespace {

constexpr int64_t kFirstWithoutListing = 4;

StatusOr<int> Freeze(const PassContext& /*context*/, Model& model) {
  Graph& graph = model.graph;
  const auto listed = [&](ValueId v) { return graph.value(v).is_initializer; };
  auto& inputs = graph.main().inputs;
  const auto count = static_cast<int>(std::count_if(inputs.begin(), inputs.end(), listed));
  if (count == 0) return 0;
  RaiseIrVersion(model, kFirstWithoutListing);
  for (ValueId v : inputs) graph.value(v).is_input = graph.value(v).is_input && !listed(v);
  std::erase_if(inputs, listed);
  return count;
}

}  // namespace

const Pass& FreezeInitializersPass() {
  static const Pass pass = {.name = "freeze-initializers",
                            .summary = "Initializers that are listed among the graph's inputs are constants",
                            .run_model = Freeze};
  return pass;
}

}  // namespace quant
