// PRelu: y = x < 0 ? slope * x : x, the slope broadcast to x.
#include "libquant/ops/broadcast.h"
#include "libquant/ops/dispatch.h"

namespace quant {
namespace {

Status EvalPRelu(KernelContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& slope = context.in(1);
  if (x.dtype() != slope.dtype()) return DataError("the slope is {}", NameOf(slope.dtype()));
  Tensor shaped = slope;
  // A slope per channel is [C] for axis 1 before opset 7, and old exporters write it so later on too.
  const bool per_channel = slope.rank() == 1 && x.rank() > 2 && slope.size() == x.dims()[1] &&
                           (context.version() < 7 || slope.size() != x.dims().back());
  if (per_channel) {
    Dims dims(static_cast<size_t>(x.rank() - 1), 1);
    dims[0] = slope.size();
    shaped = slope.Reshaped(dims);
  }
  return WithNumber(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    return BroadcastBinary<T, T, T>(context, x, shaped, [](T v, T s) {
      return static_cast<W>(v) < 0 ? static_cast<T>(static_cast<W>(s) * static_cast<W>(v)) : v;
    });
  });
}

}  // namespace

const OpDef& PReluOp() {
  static const OpDef def = {.name = "PRelu",
                            .since = {6, 7, 9, 16},
                            .min_inputs = 2,
                            .eval = EvalPRelu,
                            .role = Requantize{},
                            .exactness = Exactness::kExact,
                            .summary = "Rectifier with a learned slope below zero"};
  return def;
}

}  // namespace quant
