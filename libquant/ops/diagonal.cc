// Matrices by their diagonals, k counted from the main one upwards: Trilu keeps what is above or below, EyeLike has
// ones on it.
#include <algorithm>
#include <cstring>

#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

Status EvalTrilu(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 2) return DataError("{} holds no matrices", Describe(x));
  const bool upper = context.attributes().Int("upper", 1) != 0;
  int64_t k = 0;
  if (const Tensor* input = context.input(1)) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntsOf(*input));
    if (values.size() != 1) return DataError("k is {}", Describe(*input));
    k = values[0];
  }
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), x.dims()));
  if (x.size() == 0) return OkStatus();
  const int64_t rows = x.dims()[x.dims().size() - 2], columns = x.dims().back();
  k = std::clamp(k, -rows, columns);  // beyond, nothing changes any more
  const std::byte* from = x.bytes().data();
  std::byte* to = out->mutable_bytes().data();
  ParallelFor(x.size() / (rows * columns), [&](int64_t matrix) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t first = std::clamp<int64_t>(upper ? r + k : 0, 0, columns);
      const int64_t last = std::clamp<int64_t>(upper ? columns : r + k + 1, 0, columns);
      const int64_t at = (matrix * rows + r) * columns * element;
      std::memset(to + at, 0, static_cast<size_t>(columns * element));
      if (first < last) {
        std::memcpy(to + at + first * element, from + at + first * element,
                    static_cast<size_t>((last - first) * element));
      }
    }
  });
  return OkStatus();
}

Status EvalEyeLike(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() != 2) return DataError("{} is no matrix", Describe(x));
  const int64_t rows = x.dims()[0], columns = x.dims()[1];
  const int64_t asked = context.attributes().Int("dtype", static_cast<int64_t>(x.dtype()));
  if (asked < 1 || asked > 64) return DataError("dtype is {}", asked);
  const DType dtype = DTypeFromNumber(static_cast<int32_t>(asked));
  const int64_t k = std::clamp(context.attributes().Int("k", 0), -rows, columns);
  const auto make = [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, dtype, x.dims()));
    T* to = out->mutable_data<T>().data();
    std::fill_n(to, out->size(), static_cast<T>(0));
    for (int64_t r = std::max<int64_t>(0, -k); r < rows && r + k < columns; ++r)
      to[r * columns + r + k] = static_cast<T>(1);
    return OkStatus();
  };
  return dtype == DType::kBool ? make(false) : WithNumber(dtype, make);
}

}  // namespace

const OpDef& TriluOp() {
  static const OpDef def = {.name = "Trilu",
                            .since = {14},
                            .eval = EvalTrilu,
                            .role = PassThrough{},
                            .exactness = Exactness::kExact,
                            .summary = "The upper or lower triangle of matrices, else 0"};
  return def;
}
const OpDef& EyeLikeOp() {
  static const OpDef def = {.name = "EyeLike",
                            .since = {9, 22},
                            .eval = EvalEyeLike,
                            .role = Control{},
                            .exactness = Exactness::kExact,
                            .summary = "Ones on a diagonal"};
  return def;
}

}  // namespace quant
