// MaxPool: the largest element of each window and, if asked for, where it lies. Neither padding nor NaN wins; a window
// that lies in the padding alone gives the type's lowest value (index -1).
#include <algorithm>
#include <limits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/scratch.h"
#include "libquant/ops/window.h"

namespace quant {
namespace {

struct MaxPoolPlan {
  std::array<WindowAxis, 3> axes;
  int64_t planes = 0, in_plane = 1, out_plane = 1;
  // Step of an index along each axis, by storage_order.
  std::array<int64_t, 3> index_step;
};

template <typename T>
constexpr T Lowest() {
  if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}

// Of one axis: the taps that some output has inside the input, and which outputs those are.
struct TapsInside {
  struct Tap {
    int64_t offset;  // from the input element of output 0
    IndexRange outputs;
  };
  std::vector<Tap> taps;

  explicit TapsInside(const WindowAxis& w) {
    for (int64_t k = w.FirstTap(w.start(w.out - 1)); k < w.LastTap(w.start(0)); ++k) {
      taps.push_back({k * w.dilation - w.pad_begin, w.OutputsInside(k)});
    }
  }
};

template <typename T>
T Larger(T a, T b) {
  return a > b ? a : b;
}

// out[o] = max over the taps of `row`.
template <typename T>
void MaxRow(const TapsInside& inside, int64_t stride, int64_t count, const T* row, T* out) {
  std::fill_n(out, count, Lowest<T>());
  for (const auto& [offset, outputs] : inside.taps) {
    const T* in = row + offset;
    if (stride == 1) {
      for (int64_t o = outputs.begin; o < outputs.end; ++o) out[o] = Larger(in[o], out[o]);
    } else if (stride == 2) {
      for (int64_t o = outputs.begin; o < outputs.end; ++o) out[o] = Larger(in[2 * o], out[o]);
    } else {
      for (int64_t o = outputs.begin; o < outputs.end; ++o) out[o] = Larger(in[o * stride], out[o]);
    }
  }
}

// The rows of a window first, element by element, then its columns. `largest` holds a row of the input.
template <typename T>
void MaxPlane(const MaxPoolPlan& plan, const TapsInside& columns, const T* x, T* y, T* largest) {
  const auto& [d, h, w] = plan.axes;
  for (int64_t od = 0; od < d.out; ++od) {
    for (int64_t oh = 0; oh < h.out; ++oh, y += w.out) {
      const int64_t d0 = d.start(od), h0 = h.start(oh);
      bool any = false;
      for (int64_t kd = d.FirstTap(d0); kd < d.LastTap(d0); ++kd) {
        for (int64_t kh = h.FirstTap(h0); kh < h.LastTap(h0); ++kh) {
          const T* row = x + ((d0 + kd * d.dilation) * h.in + h0 + kh * h.dilation) * w.in;
          if (any) {
            for (int64_t i = 0; i < w.in; ++i) largest[i] = Larger(row[i], largest[i]);
          } else {
            for (int64_t i = 0; i < w.in; ++i) largest[i] = Larger(row[i], Lowest<T>());
          }
          any = true;
        }
      }
      if (any) {
        MaxRow(columns, w.stride, w.out, largest, y);
      } else {
        std::fill_n(y, w.out, Lowest<T>());
      }
    }
  }
}

// The plain loop: value and index of one window.
template <typename T>
void MaxWindow(const MaxPoolPlan& plan, const T* x, int64_t d0, int64_t h0, int64_t w0, T* value, int64_t* index) {
  const auto& [d, h, w] = plan.axes;
  *value = Lowest<T>();
  *index = -1;
  for (int64_t kd = d.FirstTap(d0); kd < d.LastTap(d0); ++kd) {
    for (int64_t kh = h.FirstTap(h0); kh < h.LastTap(h0); ++kh) {
      for (int64_t kw = w.FirstTap(w0); kw < w.LastTap(w0); ++kw) {
        const int64_t id = d0 + kd * d.dilation, ih = h0 + kh * h.dilation, iw = w0 + kw * w.dilation;
        const T v = x[(id * h.in + ih) * w.in + iw];
        if (v > *value) {
          *value = v;
        } else if (*index >= 0) {
          continue;
        }
        *index = id * plan.index_step[0] + ih * plan.index_step[1] + iw * plan.index_step[2];
      }
    }
  }
}

template <typename T>
void MaxPlaneWithIndices(const MaxPoolPlan& plan, const T* x, int64_t base, T* y, int64_t* indices) {
  const auto& [d, h, w] = plan.axes;
  for (int64_t od = 0; od < d.out; ++od) {
    for (int64_t oh = 0; oh < h.out; ++oh) {
      for (int64_t ow = 0; ow < w.out; ++ow, ++y, ++indices) {
        MaxWindow(plan, x, d.start(od), h.start(oh), w.start(ow), y, indices);
        if (*indices >= 0) *indices += base;
      }
    }
  }
}

constexpr int64_t kPieceElements = 16384;  // of the input, a thread's turn

template <typename T>
void MaxPlanes(const KernelContext& context, const MaxPoolPlan& plan, const T* x, T* y, int64_t* indices) {
  const TapsInside columns(plan.axes[2]);
  ScratchPool rows(context, plan.axes[2].in * static_cast<int64_t>(sizeof(T)));
  const int64_t in_piece = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(plan.in_plane, 1));
  ParallelFor(CeilDiv(plan.planes, in_piece), [&](int64_t piece) {
    auto lease = rows.Borrow();
    for (int64_t p = piece * in_piece; p < std::min(plan.planes, (piece + 1) * in_piece); ++p) {
      const T* in = x + p * plan.in_plane;
      T* out = y + p * plan.out_plane;
      if (indices == nullptr) {
        MaxPlane(plan, columns, in, out, lease.template as<T>());
      } else {
        MaxPlaneWithIndices(plan, in, p * plan.in_plane, out, indices + p * plan.out_plane);
      }
    }
  });
}

template <typename T>
Status EvalFloats(KernelContext& context, const MaxPoolPlan& plan, const Dims& dims, int64_t* indices) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const auto xs, FloatInput<T>::Of(context, &x));
  ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, 0, x.dtype(), dims));
  MaxPlanes<T>(context, plan, xs.data(), y.data(), indices);
  return y.Finish();
}

template <typename T>
Status EvalIntegers(KernelContext& context, const MaxPoolPlan& plan, const Dims& dims, int64_t* indices) {
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DTypeOf<T>(), dims));
  MaxPlanes<T>(context, plan, context.in(0).data<T>().data(), y->mutable_data<T>().data(), indices);
  return OkStatus();
}

Status EvalMaxPool(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 3) return DataError("the input has rank {}; [N, C, spatial...] is needed", x.rank());
  ASSIGN_OR_RETURN(const Window window,
                   ReadWindow(context.attributes(), WindowKind::kPool, std::span(x.dims()).subspan(2), {}));
  MaxPoolPlan plan;
  ASSIGN_OR_RETURN(plan.axes, ThreeAxes(window));
  const Dims dims = WithSpatial(x.dims()[0], x.dims()[1], window);
  if (!CheckedProduct(dims)) return DataError("the output {} overflows", ToString(dims));
  plan.planes = x.dims()[0] * x.dims()[1];
  const auto& [d, h, w] = plan.axes;
  plan.in_plane = d.in * h.in * w.in;
  plan.out_plane = d.out * h.out * w.out;
  plan.index_step = {h.in * w.in, w.in, 1};
  if (context.attributes().Int("storage_order", 0) != 0) plan.index_step = {1, d.in, d.in * h.in};
  int64_t* indices = nullptr;
  if (context.wanted(1)) {
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(1, DType::kInt64, dims));
    indices = out->mutable_data<int64_t>().data();
  }
  if (x.dtype() == DType::kInt8) return EvalIntegers<int8_t>(context, plan, dims, indices);
  if (x.dtype() == DType::kUint8) return EvalIntegers<uint8_t>(context, plan, dims, indices);
  return WithComputeType(x.dtype(),
                         [&](auto zero) { return EvalFloats<decltype(zero)>(context, plan, dims, indices); });
}

}  // namespace

const OpDef& MaxPoolOp() {
  static const OpDef def = {
      .name = "MaxPool",
      .since = {1, 8, 10, 11, 12, 22},
      .min_inputs = 1,
      .eval = EvalMaxPool,
      .role = OrderPreserving{},
      .exactness = Exactness::kExact,
      .summary = "Largest element of each window, with indices, dilations and ceil_mode",
  };
  return def;
}

}  // namespace quant
