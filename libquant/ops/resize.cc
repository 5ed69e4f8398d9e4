// Resize and Upsample: one pass over each axis that changes, each output element a weighted sum of input elements
// (resize_axis.h). Upsample is what Resize was at opset 10.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/resize_axis.h"

namespace quant {
namespace {

struct ResizePlan {
  ResizeOptions options;
  float extrapolation = 0;
  std::vector<AxisTaps> axes;  // of every axis
  Dims out_dims;
};

template <typename T>
StatusOr<T> Word(const Attributes& attributes, std::string_view name, const std::string& otherwise,
                 const std::map<std::string, T>& words) {
  const std::string word = attributes.String(name, otherwise);
  const auto found = words.find(word);
  if (found == words.end()) return Unsupported("{} '{}' is not known", name, word);
  return found->second;
}

Status ReadOptions(const KernelContext& context, ResizePlan& plan) {
  const Attributes& a = context.attributes();
  ResizeOptions& o = plan.options;
  ASSIGN_OR_RETURN(o.mode, Word<ResizeMode>(a, "mode", "nearest",
                                            {{"nearest", ResizeMode::kNearest},
                                             {"linear", ResizeMode::kLinear},
                                             {"bilinear", ResizeMode::kLinear},
                                             {"cubic", ResizeMode::kCubic}}));
  if (context.version() < 11) {
    o.coordinates = Coordinates::kAsymmetric;
    o.nearest = NearestMode::kSimple;
    return OkStatus();
  }
  ASSIGN_OR_RETURN(o.coordinates, Word<Coordinates>(a, "coordinate_transformation_mode", "half_pixel",
                                                    {{"half_pixel", Coordinates::kHalfPixel},
                                                     {"half_pixel_symmetric", Coordinates::kHalfPixelSymmetric},
                                                     {"pytorch_half_pixel", Coordinates::kPytorchHalfPixel},
                                                     {"align_corners", Coordinates::kAlignCorners},
                                                     {"asymmetric", Coordinates::kAsymmetric},
                                                     {"tf_half_pixel_for_nn", Coordinates::kTfHalfPixel},
                                                     {"tf_crop_and_resize", Coordinates::kTfCrop}}));
  ASSIGN_OR_RETURN(o.nearest, Word<NearestMode>(a, "nearest_mode", "round_prefer_floor",
                                                {{"round_prefer_floor", NearestMode::kRoundPreferFloor},
                                                 {"round_prefer_ceil", NearestMode::kRoundPreferCeil},
                                                 {"floor", NearestMode::kFloor},
                                                 {"ceil", NearestMode::kCeil}}));
  o.cubic_a = a.Float("cubic_coeff_a", -0.75f);
  o.exclude_outside = a.Int("exclude_outside", 0) != 0;
  o.antialias = a.Int("antialias", 0) != 0;
  plan.extrapolation = a.Float("extrapolation_value", 0);
  return OkStatus();
}

// Numbers of an input or attribute; empty when there are none.
StatusOr<std::vector<double>> Numbers(const Tensor* tensor) {
  std::vector<double> out;
  if (tensor == nullptr || tensor->size() == 0) return out;
  if (tensor->rank() != 1) return DataError("sizes, scales or roi of {}", Describe(*tensor));
  const Status status = WithType<float, double, float16, int64_t>(tensor->dtype(), [&](auto zero) {
    for (const auto v : tensor->data<decltype(zero)>()) out.push_back(static_cast<double>(v));
    return OkStatus();
  });
  RETURN_IF_ERROR(status);
  return out;
}

// What is given for the axes that the node names, for all axes.
StatusOr<std::vector<size_t>> ReadAxes(const KernelContext& context) {
  const int64_t rank = context.in(0).rank();
  std::vector<size_t> out;
  if (!context.attributes().Has("axes")) {
    for (int64_t i = 0; i < rank; ++i) out.push_back(static_cast<size_t>(i));
    return out;
  }
  for (int64_t axis : context.attributes().Ints("axes")) {
    if (axis < -rank || axis >= rank) return DataError("axis {} of an input of rank {}", axis, rank);
    const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    if (std::find(out.begin(), out.end(), at) != out.end()) return DataError("axis {} is named twice", axis);
    out.push_back(at);
  }
  return out;
}

// Sizes keep the picture's proportions where the policy says so: then the scale is the same for all axes.
void KeepProportions(const std::string& policy, const Dims& in, const std::vector<size_t>& axes,
                     std::vector<double>& sizes, std::vector<double>& scales) {
  if (policy == "stretch" || axes.empty()) return;
  const auto [least, most] = std::minmax_element(scales.begin(), scales.end());
  const double scale = policy == "not_larger" ? *least : *most;
  for (size_t i = 0; i < axes.size(); ++i) {
    scales[i] = scale;
    sizes[i] = std::floor(scale * static_cast<double>(in[axes[i]]) + 0.5);
  }
}

Status MakeAxes(const KernelContext& context, const std::vector<double>& roi, std::vector<double> scales,
                std::vector<double> sizes, ResizePlan& plan) {
  const Dims& in = context.in(0).dims();
  ASSIGN_OR_RETURN(const std::vector<size_t> axes, ReadAxes(context));
  const bool sized = !sizes.empty();
  if ((sized ? sizes : scales).size() != axes.size()) {
    return DataError("{} {} for {} axes", (sized ? sizes : scales).size(), sized ? "sizes" : "scales", axes.size());
  }
  const bool crop = plan.options.coordinates == Coordinates::kTfCrop;
  if (crop && roi.size() != 2 * axes.size())
    return DataError("a roi of {} numbers for {} axes", roi.size(), axes.size());
  if (sized) {
    scales.clear();
    for (size_t i = 0; i < axes.size(); ++i) {
      if (in[axes[i]] == 0) return DataError("an axis of length 0 can't be resized");
      scales.push_back(sizes[i] / static_cast<double>(in[axes[i]]));
    }
    KeepProportions(context.attributes().String("keep_aspect_ratio_policy", "stretch"), in, axes, sizes, scales);
  }
  plan.out_dims = in;
  plan.axes.resize(in.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t length = in[axes[i]];
    const auto scale = static_cast<float>(scales[i]);
    const double out = sized ? sizes[i] : std::floor(static_cast<float>(length) * scale);
    if (!(scale > 0) || !(out >= 0) || out > 1e9)
      return DataError("axis {} of {} scaled by {}", axes[i], length, scales[i]);
    plan.out_dims[axes[i]] = static_cast<int64_t>(out);
    const bool unchanged = static_cast<int64_t>(out) == length && scale == 1 && !crop;
    if (unchanged || length == 0 || out == 0) continue;
    const auto begin = static_cast<float>(crop ? roi[i] : 0), end = static_cast<float>(crop ? roi[axes.size() + i] : 1);
    plan.axes[axes[i]] = MakeTaps(plan.options, length, static_cast<int64_t>(out), scale, begin, end);
  }
  if (!CheckedProduct(plan.out_dims) || !BytesFor(DType::kDouble, plan.out_dims)) {
    return DataError("the output {} overflows", ToString(plan.out_dims));
  }
  return OkStatus();
}

StatusOr<ResizePlan> PlanResize(const KernelContext& context) {
  ResizePlan plan;
  RETURN_IF_ERROR(ReadOptions(context, plan));
  std::vector<double> roi, scales, sizes;
  if (context.version() < 11) {
    ASSIGN_OR_RETURN(scales, Numbers(context.input(1)));
    if (scales.empty()) {
      for (float f : context.attributes().Floats("scales")) scales.push_back(double{f});
    }
  } else {
    ASSIGN_OR_RETURN(roi, Numbers(context.input(1)));
    ASSIGN_OR_RETURN(scales, Numbers(context.input(2)));
    ASSIGN_OR_RETURN(sizes, Numbers(context.input(3)));
  }
  RETURN_IF_ERROR(MakeAxes(context, roi, std::move(scales), std::move(sizes), plan));
  return plan;
}

// One axis of [outer, in, inner]. T is the elements' type, W the one sums are made in.
template <typename T, typename W>
void ResizeAxis(const AxisTaps& axis, int64_t outer, int64_t inner, const T* in, T* out) {
  ParallelFor(outer, [&](int64_t o) {
    const T* from = in + o * axis.in * inner;
    T* to = out + o * axis.out * inner;
    if (axis.taps == 1 && inner == 1) {
      for (int64_t i = 0; i < axis.out; ++i) to[i] = from[axis.index[static_cast<size_t>(i)]];
      return;
    }
    for (int64_t i = 0; i < axis.out; ++i, to += inner) {
      const int64_t* index = axis.index.data() + i * axis.taps;
      const float* weight = axis.weight.data() + i * axis.taps;
      if (axis.taps == 1) {
        std::copy_n(from + index[0] * inner, inner, to);
      } else if (axis.taps == 2) {
        const T *a = from + index[0] * inner, *b = from + index[1] * inner;
        const W wa = static_cast<W>(weight[0]), wb = static_cast<W>(weight[1]);
        for (int64_t k = 0; k < inner; ++k)
          to[k] = static_cast<T>(wa * static_cast<W>(a[k]) + wb * static_cast<W>(b[k]));
      } else {
        for (int64_t k = 0; k < inner; ++k) {
          W sum = 0;
          for (int64_t t = 0; t < axis.taps; ++t)
            sum += static_cast<W>(weight[t]) * static_cast<W>(from[index[t] * inner + k]);
          to[k] = static_cast<T>(sum);
        }
      }
    }
  });
}

// All axes, one after another, between two buffers. T is any trivially copyable type for nearest.
template <typename T, typename W>
void ResizeAll(const ResizePlan& plan, const Dims& in_dims, const T* in, T* out) {
  std::unique_ptr<T[]> held, made;
  Dims dims = in_dims;
  std::vector<size_t> order;
  for (size_t a = 0; a < dims.size(); ++a) {
    if (plan.axes[a].out > 0) order.push_back(a);
  }
  // Where elements are only picked, the order is free: most of what the outer axes add are then copies of whole rows.
  if (plan.options.mode == ResizeMode::kNearest) std::reverse(order.begin(), order.end());
  const T* from = in;
  for (size_t a : order) {
    const AxisTaps& axis = plan.axes[a];
    int64_t outer = 1, inner = 1;
    for (size_t i = 0; i < a; ++i) outer *= dims[i];
    for (size_t i = a + 1; i < dims.size(); ++i) inner *= dims[i];
    T* to = out;
    if (a != order.back()) {
      made = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(outer * axis.out * inner));
      to = made.get();
    }
    ResizeAxis<T, W>(axis, outer, inner, from, to);
    dims[a] = axis.out;
    held.swap(made);
    from = held.get();
  }
}

// Output elements whose place is outside the input on any axis.
template <typename T>
void Extrapolate(const ResizePlan& plan, T* out) {
  int64_t size = 1;
  for (int64_t d : plan.out_dims) size *= d;
  int64_t inner = size;
  for (size_t a = 0; a < plan.axes.size(); ++a) {
    const int64_t length = plan.out_dims[a];
    inner /= std::max<int64_t>(length, 1);
    for (size_t i = 0; i < plan.axes[a].outside.size(); ++i) {
      if (!plan.axes[a].outside[i]) continue;
      for (int64_t o = 0; o < size / (inner * length); ++o) {
        std::fill_n(out + (o * length + static_cast<int64_t>(i)) * inner, inner, static_cast<T>(plan.extrapolation));
      }
    }
  }
}

Status EvalResize(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const ResizePlan plan, PlanResize(context));
  const bool changed = std::any_of(plan.axes.begin(), plan.axes.end(), [](const AxisTaps& a) { return a.out > 0; });
  if (!changed && plan.out_dims == x.dims()) {
    context.Set(0, x);
    return OkStatus();
  }
  const bool crop = plan.options.coordinates == Coordinates::kTfCrop;
  if (plan.options.mode == ResizeMode::kNearest && !crop) {
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), plan.out_dims));
    if (y->size() == 0) return OkStatus();
    return WithElementBits(x.dtype(), [&](auto zero) {
      using U = decltype(zero);
      ResizeAll<U, float>(plan, x.dims(), reinterpret_cast<const U*>(x.bytes().data()),
                          reinterpret_cast<U*>(y->mutable_bytes().data()));
      return OkStatus();
    });
  }
  if (InfoOf(x.dtype()).is_float) {
    return WithComputeType(x.dtype(), [&](auto zero) -> Status {
      using T = decltype(zero);
      ASSIGN_OR_RETURN(const auto in, FloatInput<T>::Of(context, &x));
      ASSIGN_OR_RETURN(auto out, FloatOutput<T>::Make(context, 0, x.dtype(), plan.out_dims));
      if (out.size() == 0) return OkStatus();
      ResizeAll<T, T>(plan, x.dims(), in.data(), out.data());
      if (crop) Extrapolate(plan, out.data());
      return out.Finish();
    });
  }
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), plan.out_dims));
  if (y->size() == 0) return OkStatus();
  return WithType<uint8_t, int8_t, int32_t, int64_t>(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ResizeAll<T, float>(plan, x.dims(), x.data<T>().data(), y->mutable_data<T>().data());
    if (crop) Extrapolate(plan, y->mutable_data<T>().data());
    return OkStatus();
  });
}

OpDef Resizer(std::string_view name, std::vector<int64_t> since, std::string_view summary) {
  return {.name = name,
          .since = std::move(since),
          .min_inputs = 1,
          .eval = EvalResize,
          .role = OrderPreserving{},
          .exactness = Exactness::kRounding,
          .summary = summary};
}

}  // namespace

const OpDef& ResizeOp() {
  static const OpDef def = Resizer("Resize", {10, 11, 13, 18, 19}, "Nearest, linear or cubic resampling");
  return def;
}
const OpDef& UpsampleOp() {
  static const OpDef def = Resizer("Upsample", {7, 9}, "Nearest or linear enlargement");
  return def;
}

}  // namespace quant
