// Einsum: products of operands' elements, summed over the indices that the output lacks. Operands are taken from the
// left. Floats are computed in float32 or float64, integers wrap.
#include "libquant/ops/dispatch.h"
#include "libquant/ops/einsum_equation.h"
#include "libquant/ops/einsum_sums.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

// data[i] holds operand i.
template <typename T>
Status Evaluate(KernelContext& context, const EinsumEquation& equation, const std::vector<const T*>& data, T* out) {
  const EinsumSums<T> einsum(context, equation);
  // What the output and operands from i on have.
  std::vector<std::set<EinsumLabel>> needed(data.size() + 1);
  needed.back().insert(equation.output.begin(), equation.output.end());
  for (size_t i = data.size(); i-- > 0;) {
    needed[i] = needed[i + 1];
    needed[i].insert(equation.inputs[i].begin(), equation.inputs[i].end());
  }
  Factor<T> product;
  for (size_t i = 0; i < data.size(); ++i) {
    Factor<T> next = einsum.Load(equation.inputs[i], context.in(static_cast<int>(i)).dims(), data[i]);
    if (i == 0) {
      ASSIGN_OR_RETURN(product, einsum.Reduce(std::move(next), needed[1]));
    } else {
      ASSIGN_OR_RETURN(product, einsum.Multiply(std::move(product), std::move(next), needed[i + 1]));
    }
  }
  einsum.Store(product, out);
  return OkStatus();
}

Status EvalEinsum(KernelContext& context) {
  std::vector<Dims> operands;
  for (int i = 0; i < context.input_count(); ++i) {
    if (context.input(i) == nullptr) return DataError("operand {} is left out", i);
    RETURN_IF_ERROR(SameTypes(context, {i}));
    operands.push_back(context.in(i).dims());
  }
  ASSIGN_OR_RETURN(const EinsumEquation equation, ReadEinsum(context.attributes().String("equation", ""), operands));
  Dims dims;
  for (const EinsumLabel label : equation.output) dims.push_back(equation.sizes.at(label));
  const DType dtype = context.in(0).dtype();
  if (InfoOf(dtype).is_float) {
    return WithComputeType(dtype, [&](auto zero) -> Status {
      using T = decltype(zero);
      std::vector<FloatInput<T>> inputs(operands.size());
      std::vector<const T*> data(operands.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        ASSIGN_OR_RETURN(inputs[i], FloatInput<T>::Of(context, context.input(static_cast<int>(i))));
        data[i] = inputs[i].data();
      }
      ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, dtype, dims));
      RETURN_IF_ERROR(Evaluate<T>(context, equation, data, out.data()));
      return out.Finish();
    });
  }
  return WithType<int32_t, int64_t, uint32_t, uint64_t, int8_t, uint8_t, int16_t, uint16_t>(
      dtype, [&](auto zero) -> Status {
        using U = std::make_unsigned_t<decltype(zero)>;
        std::vector<const U*> data(operands.size());
        for (size_t i = 0; i < data.size(); ++i) data[i] = context.in(static_cast<int>(i)).data<U>().data();
        ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, dtype, dims));
        return Evaluate<U>(context, equation, data, out->mutable_data<U>().data());
      });
}

}  // namespace

const OpDef& EinsumOp() {
  static const OpDef def = {.name = "Einsum",
                            .since = {12},
                            .eval = EvalEinsum,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "Sums of products over named indices"};
  return def;
}

}  // namespace quant
