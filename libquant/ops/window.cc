#include "libquant/ops/window.h"

#include <algorithm>

#include "libquant/base/checked.h"

namespace quant {
namespace {

// Keeps every product and sum of window arithmetic far from overflow; no real attribute comes near it.
constexpr int64_t kLimit = int64_t{1} << 30;

// A per-axis attribute: all `otherwise` when absent, else of `size` values in [least, kLimit].
StatusOr<std::vector<int64_t>> ReadAxisValues(const Attributes& attributes, const char* name, size_t size,
                                              int64_t otherwise, int64_t least) {
  std::vector<int64_t> values = attributes.Ints(name);
  if (values.empty()) return std::vector<int64_t>(size, otherwise);
  if (values.size() != size) return DataError("{} has {} values where {} belong", name, values.size(), size);
  for (int64_t v : values) {
    if (v < least || v > kLimit)
      return DataError("{} holds {}, which is not between {} and {}", name, v, least, kLimit);
  }
  return values;
}

// Splits a total padding over both ends as auto_pad says.
void SplitPads(WindowAxis& axis, int64_t total, bool lower) {
  total = std::max<int64_t>(total, 0);
  axis.pad_begin = lower ? total - total / 2 : total / 2;
  axis.pad_end = total - axis.pad_begin;
}

// Output size of a Conv or pool axis whose pads are explicit. With ceil_mode the last window may overhang, but must
// begin inside the input or its left padding.
int64_t OutputSize(const WindowAxis& axis, bool ceil_mode) {
  const int64_t room = axis.in + axis.pad_begin + axis.pad_end - axis.extent();
  // -1 / 2 is 0 rounded up: a window that overhangs by less than a stride.
  if (room < 0) return ceil_mode && -room < axis.stride && axis.in + axis.pad_begin > 0 ? 1 : 0;
  int64_t out = room / axis.stride + 1;
  if (ceil_mode && room % axis.stride != 0 && out * axis.stride < axis.in + axis.pad_begin) ++out;
  return out;
}

struct Reader {
  const Attributes& attributes;
  WindowKind kind;
  std::string auto_pad;
  bool ceil_mode = false;
  std::vector<int64_t> pads, output_shape, output_padding;

  bool same() const { return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"; }
  bool lower() const { return auto_pad == "SAME_LOWER"; }

  Status ReadPads(size_t rank) {
    auto_pad = attributes.String("auto_pad", "NOTSET");
    if (auto_pad.empty()) auto_pad = "NOTSET";
    if (auto_pad != "NOTSET" && auto_pad != "VALID" && !same()) return DataError("auto_pad is '{}'", auto_pad);
    ASSIGN_OR_RETURN(pads, ReadAxisValues(attributes, "pads", 2 * rank, 0, -kLimit));
    if (auto_pad != "NOTSET") pads.assign(2 * rank, 0);
    if (kind == WindowKind::kPool) ceil_mode = attributes.Int("ceil_mode", 0) != 0;
    if (kind != WindowKind::kTranspose) return OkStatus();
    ASSIGN_OR_RETURN(output_padding, ReadAxisValues(attributes, "output_padding", rank, 0, 0));
    output_shape = attributes.Ints("output_shape");
    // Some exporters write the whole output's dims.
    if (output_shape.size() == rank + 2) output_shape.erase(output_shape.begin(), output_shape.begin() + 2);
    if (!output_shape.empty() && output_shape.size() != rank) {
      return DataError("output_shape has {} values where {} belong", output_shape.size(), rank);
    }
    for (int64_t size : output_shape) {
      if (size < 1 || size > kLimit) return DataError("output_shape holds {}", size);
    }
    return OkStatus();
  }

  void FinishForward(WindowAxis& axis) const {
    if (same()) {
      axis.out = CeilDiv(axis.in, axis.stride);
      SplitPads(axis, (axis.out - 1) * axis.stride + axis.extent() - axis.in, lower());
    } else {
      axis.out = OutputSize(axis, ceil_mode);
    }
  }

  void FinishTranspose(WindowAxis& axis, size_t i) const {
    const int64_t full = axis.stride * (axis.in - 1) + output_padding[i] + axis.extent();
    if (!output_shape.empty()) {
      axis.out = output_shape[i];
      // Explicit output sizes put the odd pad at the end only for SAME_UPPER.
      SplitPads(axis, full - axis.out, auto_pad != "SAME_UPPER");
    } else if (same()) {
      axis.out = axis.in * axis.stride;
      SplitPads(axis, full - axis.out, lower());
    } else {
      axis.out = full - axis.pad_begin - axis.pad_end;
    }
  }
};

}  // namespace

StatusOr<Window> ReadWindow(const Attributes& attributes, WindowKind kind, std::span<const int64_t> input,
                            std::span<const int64_t> kernel) {
  const size_t rank = input.size();
  if (rank == 0) return DataError("the input has no spatial axes");
  ASSIGN_OR_RETURN(const auto shape, ReadAxisValues(attributes, "kernel_shape", rank, 0, 1));
  if (kind == WindowKind::kPool && !attributes.Has("kernel_shape")) return DataError("kernel_shape is missing");
  if (!kernel.empty() && attributes.Has("kernel_shape") && !std::equal(shape.begin(), shape.end(), kernel.begin())) {
    return DataError("kernel_shape {} is not the weight's {}", ToString(shape), ToString(kernel));
  }
  ASSIGN_OR_RETURN(const auto strides, ReadAxisValues(attributes, "strides", rank, 1, 1));
  ASSIGN_OR_RETURN(const auto dilations, ReadAxisValues(attributes, "dilations", rank, 1, 1));
  Reader reader{attributes, kind, {}, false, {}, {}, {}};
  RETURN_IF_ERROR(reader.ReadPads(rank));
  Window window(rank);
  for (size_t i = 0; i < rank; ++i) {
    WindowAxis& axis = window[i];
    axis = {input[i],
            0,
            kernel.empty() ? shape[i] : kernel[i],
            strides[i],
            dilations[i],
            reader.pads[i],
            reader.pads[rank + i]};
    if (axis.kernel < 1 || axis.kernel > kLimit || axis.in > kLimit) {
      return DataError("spatial axis {} has kernel {} over an input of {}", i, axis.kernel, axis.in);
    }
    kind == WindowKind::kTranspose ? reader.FinishTranspose(axis, i) : reader.FinishForward(axis);
    if (axis.out < 1 || axis.out > 4 * kLimit) {
      return DataError(
          "spatial axis {} would have {} output positions: input {}, kernel {}, stride {}, dilation {}, pads {} and {}",
          i, axis.out, axis.in, axis.kernel, axis.stride, axis.dilation, axis.pad_begin, axis.pad_end);
    }
  }
  return window;
}

StatusOr<std::array<WindowAxis, 3>> ThreeAxes(const Window& window) {
  if (window.size() > 3) return Unsupported("{} spatial axes are not supported; at most 3 are", window.size());
  std::array<WindowAxis, 3> axes;
  std::copy(window.begin(), window.end(), axes.end() - static_cast<std::ptrdiff_t>(window.size()));
  return axes;
}

Dims WithSpatial(int64_t n, int64_t c, const Window& window) {
  Dims dims = {n, c};
  for (const WindowAxis& axis : window) dims.push_back(axis.out);
  return dims;
}

}  // namespace quant
