// Pad: constant, reflect (without the edge), edge, wrap; negative pads crop.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 15;

// Pads per axis, begins first, for all axes. Below opset 11 attributes; from 18 the axes may be listed.
StatusOr<std::vector<int64_t>> PadsOf(const KernelContext& context, int64_t rank) {
  ASSIGN_OR_RETURN(auto given, IntsFrom(context, 1, "pads"));
  if (!given) return DataError("no pads are given");
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (const Tensor* listed = context.input(3)) {
    ASSIGN_OR_RETURN(axes, IntsOf(*listed));
    for (int64_t& axis : axes) {
      ASSIGN_OR_RETURN(axis, NormalizeAxis(axis, rank));
    }
  }
  if (given->size() != 2 * axes.size()) return DataError("{} pads for {} axes", given->size(), axes.size());
  std::vector<int64_t> pads(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    pads[static_cast<size_t>(axes[i])] = (*given)[i];
    pads[static_cast<size_t>(axes[i] + rank)] = (*given)[axes.size() + i];
  }
  return pads;
}

// For each position of the padded axis the source position, or -1 for the constant.
StatusOr<std::vector<int64_t>> SourcePositions(const std::string& mode, int64_t dim, int64_t before, int64_t length) {
  std::vector<int64_t> out(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    int64_t p = i - before;
    if (p < 0 || p >= dim) {
      if (mode == "constant") {
        p = -1;
      } else if (dim == 0) {
        return DataError("mode {} pads an empty axis", mode);
      } else if (mode == "edge") {
        p = p < 0 ? 0 : dim - 1;
      } else if (mode == "wrap") {
        p = ((p % dim) + dim) % dim;
      } else if (mode == "reflect") {
        const int64_t period = std::max<int64_t>(1, 2 * (dim - 1));
        p = ((p % period) + period) % period;
        if (p >= dim) p = period - p;
      } else {
        return Unsupported("mode {} is not supported", mode);
      }
    }
    out[static_cast<size_t>(i)] = p;
  }
  return out;
}

// The constant's bytes, `element` of them.
StatusOr<uint64_t> FillOf(const KernelContext& context, const Tensor& x) {
  uint64_t bits = 0;
  if (const Tensor* value = context.version() < 11 ? nullptr : context.input(2)) {
    if (value->dtype() != x.dtype() || value->size() != 1) return DataError("the constant is {}", Describe(*value));
    std::memcpy(&bits, value->bytes().data(), static_cast<size_t>(value->byte_size()));
  } else if (context.version() < 11) {
    const float v = context.attributes().Float("value", 0.0f);
    if (v != 0 && x.dtype() != DType::kFloat) return Unsupported("a constant other than 0 for {}", NameOf(x.dtype()));
    std::memcpy(&bits, &v, sizeof v);
  }
  return bits;
}

// The padded tensor row by row: from[axis] says where each position comes from. A scalar is one row of one.
template <typename U>
void CopyRows(const std::vector<std::vector<int64_t>>& from, const std::vector<int64_t>& strides, const U* in, U fill,
              U* out) {
  const std::vector<int64_t> one = {0};
  const std::vector<int64_t>& last = from.empty() ? one : from.back();
  const auto length = static_cast<int64_t>(last.size());
  // A run of positions that follow one another, which is most of a row.
  int64_t begin = 0;
  while (begin < length && last[static_cast<size_t>(begin)] < 0) ++begin;
  int64_t end = begin;
  while (end < length && last[static_cast<size_t>(end)] == last[static_cast<size_t>(begin)] + end - begin) ++end;
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < from.size(); ++d) rows *= static_cast<int64_t>(from[d].size());
  const int64_t group = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(length, 1));
  ParallelFor(CeilDiv(rows, group), [&](int64_t piece) {
    for (int64_t r = piece * group; r < std::min(rows, (piece + 1) * group); ++r) {
      int64_t at = 0, rest = r;
      bool constant = false;
      for (size_t d = from.size(); d-- > 1;) {
        const auto& positions = from[d - 1];
        const auto count = static_cast<int64_t>(positions.size());
        const int64_t p = positions[static_cast<size_t>(rest % count)];
        rest /= count;
        constant = constant || p < 0;
        at += p * strides[d - 1];
      }
      U* to = out + r * length;
      if (constant) {
        std::fill_n(to, length, fill);
        continue;
      }
      const auto one_by_one = [&](int64_t first, int64_t past) {
        for (int64_t i = first; i < past; ++i) {
          const int64_t p = last[static_cast<size_t>(i)];
          to[i] = p < 0 ? fill : in[at + p];
        }
      };
      one_by_one(0, begin);
      if (begin < end) std::copy_n(in + at + last[static_cast<size_t>(begin)], end - begin, to + begin);
      one_by_one(end, length);
    }
  });
}

Status EvalPad(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.strings() != nullptr) return Unsupported("strings are not padded");
  const std::string mode = context.attributes().String("mode", "constant");
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, PadsOf(context, x.rank()));
  ASSIGN_OR_RETURN(const uint64_t fill, FillOf(context, x));
  const auto rank = x.dims().size();
  Dims dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    const auto grown = CheckedAdd(x.dims()[i], pads[i]);
    const auto total = grown ? CheckedAdd(*grown, pads[i + rank]) : std::nullopt;
    if (!total || *total < 0) return DataError("pads [{}] of {}", ToString(pads), Describe(x));
    dims[i] = *total;
  }
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), dims));  // checks the size before tables are made
  if (out->size() == 0) return OkStatus();  // whose dims may be of any length, beside one of 0
  std::vector<std::vector<int64_t>> from(rank);
  for (size_t i = 0; i < rank; ++i) {
    ASSIGN_OR_RETURN(from[i], SourcePositions(mode, x.dims()[i], pads[i], dims[i]));
  }
  return WithElementBits(x.dtype(), [&](auto zero) {
    using U = decltype(zero);
    U value;
    std::memcpy(&value, &fill, sizeof value);
    CopyRows<U>(from, DenseStrides(x.dims()), reinterpret_cast<const U*>(x.bytes().data()), value,
                reinterpret_cast<U*>(out->mutable_bytes().data()));
    return OkStatus();
  });
}

}  // namespace

const OpDef& PadOp() {
  static const OpDef def = {.name = "Pad",
                            .since = {2, 11, 13, 18, 19, 21, 23, 24, 25},
                            .eval = EvalPad,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "More elements around"};
  return def;
}

}  // namespace quant
