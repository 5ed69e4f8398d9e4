// GridSample: X read at the places that a grid names, -1 and 1 being the ends of an axis.
//   X [N, C, D1 ... Dr], grid [N, O1 ... Or, r] with coordinates innermost first, Y [N, C, O1 ... Or]; r is 1 to 3
//   x = (g + 1) / 2 * (D - 1) with align_corners, else ((g + 1) * D - 1) / 2
// What lies outside is zero, the nearest border, or reflected at the border. A coordinate that is no number reads what
// index -1 does.
#include <algorithm>
#include <limits>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/sample_taps.h"

namespace quant {
namespace {

enum class Mode { kNearest, kLinear, kCubic };
enum class Padding { kZeros, kBorder, kReflection };

constexpr int64_t kPiece = 256;

struct GridPlan {
  Mode mode = Mode::kLinear;
  Padding padding = Padding::kZeros;
  bool align_corners = false;
  int64_t batch = 0, channels = 0, rank = 0;  // rank: spatial axes
  std::array<int64_t, 3> dims = {1, 1, 1};    // of the input's spatial axes, leading ones trivial
  int64_t plane = 1, places = 1;              // elements of a channel; places to read in a sample
  Dims out;
};

template <typename T>
T Reflect(T x, T low, T high) {
  const T range = high - low;
  if (range <= 0) return low;
  const T past = x < low ? low - x : x - high;
  const T rest = std::fmod(past, range);
  const bool back = std::fmod(past, 2 * range) >= range;
  return (x < low) == back ? high - rest : low + rest;
}

template <typename T>
struct AxisReader {
  const GridPlan& plan;
  int64_t dim;
  T low, high;  // the borders

  AxisReader(const GridPlan& p, int64_t axis_dim)
      : plan(p),
        dim(axis_dim),
        low(p.align_corners ? T{0} : T{-0.5}),
        high(p.align_corners ? static_cast<T>(axis_dim - 1) : static_cast<T>(axis_dim) - T{0.5}) {}

  // The position that a grid coordinate means, finite.
  T Place(T g) const {
    T x = plan.align_corners ? (g + 1) / 2 * static_cast<T>(dim - 1) : ((g + 1) * static_cast<T>(dim) - 1) / 2;
    if (plan.mode == Mode::kNearest) x = std::nearbyint(x);
    if (std::isnan(x)) x = -1;
    x = std::clamp(x, T{-1e15}, T{1e15});
    if (x >= low && x <= high) return x;
    // Cubic interpolation goes on beyond the border, over elements equal to it: as ONNX Runtime and PyTorch have it,
    // where ONNX's reference stops at the border's element.
    const bool stop = plan.padding == Padding::kBorder && plan.mode != Mode::kCubic;
    if (stop) return std::clamp(x, T{0}, static_cast<T>(dim - 1));
    return plan.padding == Padding::kReflection ? Reflect(x, low, high) : x;
  }

  void Add(Taps<T>& taps, int64_t i, T weight) const {
    if (i < 0 || i >= dim) {
      if (plan.padding == Padding::kZeros) return;
      if (plan.padding == Padding::kReflection) i = static_cast<int64_t>(Reflect(static_cast<T>(i), low, high));
      i = std::clamp<int64_t>(i, 0, dim - 1);
    }
    taps.Add(i, weight);
  }

  Taps<T> Read(T g) const {
    Taps<T> taps;
    const T x = Place(g);
    const T floor = std::floor(x), t = x - floor;
    const auto first = static_cast<int64_t>(floor);
    if (plan.mode == Mode::kNearest) {
      Add(taps, first, 1);
    } else if (plan.mode == Mode::kLinear) {
      Add(taps, first, 1 - t);
      Add(taps, first + 1, t);
    } else {
      // Keys's cubic convolution with a = -0.75.
      constexpr T kA = -0.75;
      const auto near = [](T d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
      const auto far = [](T d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
      Add(taps, first - 1, far(t + 1));
      Add(taps, first, near(t));
      Add(taps, first + 1, near(1 - t));
      Add(taps, first + 2, far(2 - t));
    }
    return taps;
  }
};

StatusOr<GridPlan> PlanGrid(const KernelContext& context) {
  const Tensor &x = context.in(0), &grid = context.in(1);
  GridPlan plan;
  const std::string mode = context.attributes().String("mode", "linear");
  const std::string padding = context.attributes().String("padding_mode", "zeros");
  // The names before opset 20 had a "bi" in front.
  if (mode == "nearest") {
    plan.mode = Mode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    plan.mode = Mode::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return DataError("mode is '{}'", mode);
  }
  if (padding == "border") {
    plan.padding = Padding::kBorder;
  } else if (padding == "reflection") {
    plan.padding = Padding::kReflection;
  } else if (padding != "zeros") {
    return DataError("padding_mode is '{}'", padding);
  }
  plan.align_corners = context.attributes().Int("align_corners", 0) != 0;
  plan.rank = x.rank() - 2;
  if (plan.rank < 1) return DataError("the input has rank {}; [N, C, spatial...] is needed", x.rank());
  if (plan.rank > 3) return Unsupported("{} spatial axes", plan.rank);
  if (grid.rank() != x.rank() || grid.dims()[0] != x.dims()[0] || grid.dims().back() != plan.rank) {
    return DataError("a grid of {} for an input of {}", ToString(grid.dims()), ToString(x.dims()));
  }
  plan.batch = x.dims()[0];
  plan.channels = x.dims()[1];
  std::copy(x.dims().begin() + 2, x.dims().end(), plan.dims.end() - plan.rank);
  plan.out = {plan.batch, plan.channels};
  plan.out.insert(plan.out.end(), grid.dims().begin() + 1, grid.dims().end() - 1);
  const auto out_size = CheckedProduct(plan.out);
  if (!out_size) return DataError("the output {} overflows", ToString(plan.out));
  if (*out_size == 0) return plan;
  plan.plane = plan.dims[0] * plan.dims[1] * plan.dims[2];
  plan.places = ProductOf(plan.out, 2, plan.out.size());
  if (plan.plane == 0 && plan.padding != Padding::kZeros) return DataError("an input of {}", ToString(x.dims()));
  return plan;
}

// read(first element of the sample's input, of its output, taps) for every place.
template <typename T, typename F>
Status ForEachPlace(const KernelContext& context, const GridPlan& plan, F read) {
  ASSIGN_OR_RETURN(const auto grid, FloatInput<T>::Of(context, &context.in(1)));
  const std::array<AxisReader<T>, 3> axes = {AxisReader<T>(plan, plan.dims[0]), AxisReader<T>(plan, plan.dims[1]),
                                             AxisReader<T>(plan, plan.dims[2])};
  const int64_t pieces = CeilDiv(plan.places, kPiece);
  ParallelFor(plan.batch * pieces, [&](int64_t job) {
    const int64_t n = job / pieces, begin = job % pieces * kPiece;
    for (int64_t p = begin; p < std::min(plan.places, begin + kPiece); ++p) {
      std::array<Taps<T>, 3> taps;
      for (int64_t a = 0; a < 3; ++a) {
        const auto at = static_cast<size_t>(a);
        if (a < 3 - plan.rank) {
          taps[at].Add(0, 1);
        } else {
          taps[at] = axes[at].Read(grid.data()[(n * plan.places + p) * plan.rank + 2 - a]);
        }
      }
      read(n * plan.channels * plan.plane, n * plan.channels * plan.places + p, PlaneTaps<T>(taps, plan.dims));
    }
  });
  return OkStatus();
}

template <typename T, typename V>
T ToElement(V v) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(v)) return 0;
    if (v <= static_cast<V>(std::numeric_limits<T>::lowest())) return std::numeric_limits<T>::lowest();
    if (v >= static_cast<V>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(v);
  } else {
    return static_cast<T>(v);
  }
}

// Positions and sums as V.
template <typename V, typename T>
Status Interpolate(KernelContext& context, const GridPlan& plan) {
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, DTypeOf<T>(), plan.out));
  if (y->size() == 0) return OkStatus();
  const T* in = context.in(0).data<T>().data();
  T* out = y->mutable_data<T>().data();
  return ForEachPlace<V>(context, plan, [&](int64_t from, int64_t to, const PlaneTaps<V>& taps) {
    for (int64_t c = 0; c < plan.channels; ++c, from += plan.plane, to += plan.places) {
      V sum = 0;
      for (size_t i = 0; i < static_cast<size_t>(taps.count); ++i) {
        sum += taps.weight[i] * static_cast<V>(static_cast<typename Wide<T>::type>(in[from + taps.offset[i]]));
      }
      out[to] = ToElement<T>(sum);
    }
  });
}

Status Pick(KernelContext& context, const GridPlan& plan) {
  return WithElementBits(context.in(0).dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, context.in(0).dtype(), plan.out));
    if (y->size() == 0) return OkStatus();
    const T* in = reinterpret_cast<const T*>(context.in(0).bytes().data());
    T* out = reinterpret_cast<T*>(y->mutable_bytes().data());
    return WithComputeType(context.in(1).dtype(), [&](auto place) {
      using V = decltype(place);
      return ForEachPlace<V>(context, plan, [&](int64_t from, int64_t to, const PlaneTaps<V>& taps) {
        for (int64_t c = 0; c < plan.channels; ++c, from += plan.plane, to += plan.places) {
          out[to] = taps.count == 0 ? T{0} : in[from + taps.offset[0]];
        }
      });
    });
  });
}

Status EvalGridSample(KernelContext& context) {
  ASSIGN_OR_RETURN(const GridPlan plan, PlanGrid(context));
  if (plan.mode == Mode::kNearest) return Pick(context, plan);
  return WithNumber(context.in(0).dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    // Integers of 32 bits and more don't fit float.
    constexpr bool kNeedsDouble = std::is_same_v<T, double> || (std::is_integral_v<T> && sizeof(T) >= 4);
    if (kNeedsDouble || context.in(1).dtype() == DType::kDouble) return Interpolate<double, T>(context, plan);
    return Interpolate<float, T>(context, plan);
  });
}

}  // namespace

const OpDef& GridSampleOp() {
  static const OpDef def = {.name = "GridSample",
                            .since = {16, 20, 22},
                            .min_inputs = 2,
                            .eval = EvalGridSample,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .summary = "The input read between its elements, where a grid says"};
  return def;
}

}  // namespace quant
