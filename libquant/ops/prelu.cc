// PRelu: y = x < 0 ? slope * x : x, the slope broadcast to x.
#include "libquant/ops/broadcast.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/tail.h"

namespace quant {
namespace {

// A slope per channel is [C] for axis 1 before opset 7, and old exporters write it so later on too.
Tensor ShapedSlope(const Tensor& slope, const Dims& x, int64_t version) {
  const bool per_channel =
      slope.rank() == 1 && x.size() > 2 && slope.size() == x[1] && (version < 7 || slope.size() != x.back());
  if (!per_channel) return slope;
  Dims dims(x.size() - 1, 1);
  dims[0] = slope.size();
  return slope.Reshaped(dims);
}

struct PReluF {
  template <typename T>
  T operator()(T v, T s) const {
    return v < 0 ? s * v : v;
  }
};

Status EvalPRelu(KernelContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& slope = context.in(1);
  if (x.dtype() != slope.dtype()) return DataError("the slope is {}", NameOf(slope.dtype()));
  return WithNumber(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    return BroadcastBinary<T, T, T, true>(context, x, ShapedSlope(slope, x.dims(), context.version()), [](T v, T s) {
      return static_cast<T>(PReluF()(static_cast<W>(v), static_cast<W>(s)));
    });
  });
}

Tail PReluTail(const KernelCall& call, int through, const Dims& dims) {
  if (through != 0) return {};
  return CombineTail(ShapedSlope(*call.inputs[1], dims, call.version), dims, PReluF());
}

}  // namespace

const OpDef& PReluOp() {
  static const OpDef def = {.name = "PRelu",
                            .since = {6, 7, 9, 16},
                            .min_inputs = 2,
                            .eval = EvalPRelu,
                            .role = Requantize{},
                            .exactness = Exactness::kExact,
                            .summary = "Rectifier with a learned slope below zero",
                            .as_tail = PReluTail};
  return def;
}

}  // namespace quant
