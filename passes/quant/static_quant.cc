#include "passes/quant/static_quant.h"

#include <algorithm>
#include <iterator>

#include "libquant/model/check.h"
#include "libquant/model/opset.h"
#include "libquant/numerics/format.h"
#include "passes/driver.h"
#include "passes/pipeline.h"

namespace quant {
namespace {

constexpr int64_t kOpsetOfAxis = 13;  // QuantizeLinear and DequantizeLinear with an axis
constexpr std::string_view kPipeline = "default";

}  // namespace

bool IsStatic(const QuantizeOptions& options) {
  return options.activations != "none" && options.activations != "dynamic";
}

Status PrepareForIntegers(Model& model, const QuantizeOptions& options, bool fuse) {
  if (fuse) {
    ASSIGN_OR_RETURN(const std::vector<const Pass*> passes, ReadPipeline(std::string(kPipeline)));
    DriverOptions driver;
    driver.pass.target = options.target;
    RETURN_IF_ERROR(RunPasses(model, passes, driver).status());
  }
  const int64_t opset = std::max(kOpsetOfAxis, FindFormat(options.activations)->min_opset);
  if (model.OpsetOf("") < opset) RETURN_IF_ERROR(RaiseOpset(model, opset));
  model.graph.RemoveUnused();  // what nobody reads is not quantized either
  return InferShapes(model);
}

StatusOr<PlacedQuantizers> ApplyIntegers(Model& model, const QuantizeOptions& options, QuantizePlan& weights,
                                         const IntegerPlan& integers, const ValueRanges& ranges) {
  ASSIGN_OR_RETURN(const ActivationScales scales, ChooseActivationScales(model, integers, options, ranges));
  std::vector<IntegerNote> notes = NoteUnlikeInputs(model, integers, options, ranges);
  RETURN_IF_ERROR(ApplyPlan(model, options, weights));
  ASSIGN_OR_RETURN(PlacedQuantizers placed, PlaceQuantizers(model, integers, options, scales));
  std::move(notes.begin(), notes.end(), std::back_inserter(placed.notes));
  RETURN_IF_ERROR(Verify(model.graph));
  if (options.emit != Emit::kQOperator) return placed;
  RETURN_IF_ERROR(InferShapes(model));
  DriverOptions driver;
  driver.pass.target = options.target;
  RETURN_IF_ERROR(RunPasses(model, {FindPass("fuse-integer-operators")}, driver).status());
  return placed;
}

}  // namespace quant
