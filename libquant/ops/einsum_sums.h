// The sums of Einsum, over operands taken two at a time; each pair is a batch of matrix products
//   c[batch, left, right] = sum over `summed` of a[batch, left, summed] * b[batch, summed, right]
// where `batch` are the indices of both that are still needed, `left` and `right` those of one. T is float, double, or
// an unsigned integer, which wraps.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/einsum_equation.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/op_def.h"
#include "libquant/ops/reduce_rows.h"
#include "libquant/ops/strided_copy.h"

namespace quant {

inline bool HasLabel(const EinsumLabels& labels, EinsumLabel label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

inline EinsumLabels Joined(const EinsumLabels& a, const EinsumLabels& b, const EinsumLabels& c = {}) {
  EinsumLabels out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

// An operand or a product so far: no label twice, each of its full size.
template <typename T>
struct Factor {
  EinsumLabels labels;
  std::vector<int64_t> strides;
  const T* data = nullptr;
  std::shared_ptr<Buffer> owned;
};

template <typename T>
class EinsumSums {
 public:
  EinsumSums(const KernelContext& context, const EinsumEquation& equation) : context_(context), equation_(equation) {}

  // An operand: repeated labels walk the diagonal, axes of 1 that repeat are dropped.
  Factor<T> Load(const EinsumLabels& labels, const Dims& dims, const T* data) const {
    Factor<T> out;
    out.data = data;
    const std::vector<int64_t> strides = DenseStrides(dims);
    for (size_t i = 0; i < labels.size(); ++i) {
      if (dims[i] != equation_.sizes.at(labels[i])) continue;
      const auto it = std::find(out.labels.begin(), out.labels.end(), labels[i]);
      if (it != out.labels.end()) {
        out.strides[static_cast<size_t>(it - out.labels.begin())] += strides[i];
      } else {
        out.labels.push_back(labels[i]);
        out.strides.push_back(strides[i]);
      }
    }
    return out;
  }

  // The factor summed over what is not `needed`.
  StatusOr<Factor<T>> Reduce(Factor<T> x, const std::set<EinsumLabel>& needed) const {
    EinsumLabels kept, summed;
    for (const EinsumLabel label : x.labels) (needed.contains(label) ? kept : summed).push_back(label);
    if (summed.empty()) return x;
    RETURN_IF_ERROR(MakeDense(x, Joined(kept, summed)));
    ASSIGN_OR_RETURN(const int64_t rows, SizeOf(kept));
    ASSIGN_OR_RETURN(const int64_t length, SizeOf(summed));
    Factor<T> out = Dense(kept, Room(rows));
    T* to = MutableData(out);
    ParallelFor(rows, [&](int64_t r) {
      const T* row = x.data + r * length;
      if constexpr (std::is_integral_v<T>) {
        to[r] = static_cast<T>(std::accumulate(row, row + length, uint64_t{0}));
      } else {
        to[r] = static_cast<T>(Sum(row, length));
      }
    });
    return out;
  }

  // The product of two, summed over what is not `needed` by others.
  StatusOr<Factor<T>> Multiply(Factor<T> a, Factor<T> b, const std::set<EinsumLabel>& needed) const {
    std::set<EinsumLabel> a_needed = needed, b_needed = needed;
    a_needed.insert(b.labels.begin(), b.labels.end());
    b_needed.insert(a.labels.begin(), a.labels.end());
    ASSIGN_OR_RETURN(a, Reduce(std::move(a), a_needed));
    ASSIGN_OR_RETURN(b, Reduce(std::move(b), b_needed));
    EinsumLabels batch, left, right, summed;
    for (const EinsumLabel label : a.labels) {
      (!HasLabel(b.labels, label) ? left : needed.contains(label) ? batch : summed).push_back(label);
    }
    for (const EinsumLabel label : b.labels) {
      if (!HasLabel(a.labels, label)) right.push_back(label);
    }
    GemmSize size;
    ASSIGN_OR_RETURN(size.m, SizeOf(left));
    ASSIGN_OR_RETURN(size.n, SizeOf(right));
    ASSIGN_OR_RETURN(size.k, SizeOf(summed));
    ASSIGN_OR_RETURN(const int64_t count, SizeOf(batch));
    const EinsumLabels product = Joined(batch, left, right);
    ASSIGN_OR_RETURN(const int64_t total, SizeOf(product));
    ASSIGN_OR_RETURN(const MatrixRef<T> as, Matrices(a, batch, left, summed));
    ASSIGN_OR_RETURN(const MatrixRef<T> bs, Matrices(b, batch, summed, right));
    Factor<T> out = Dense(product, Room(total));
    Products(size, count, as, bs, MutableData(out));
    return out;
  }

  // The factor in the output's order of axes.
  void Store(const Factor<T>& x, T* out) const { Copy(x, equation_.output, out); }

 private:
  // DataError when sizes overflow: intermediate products may be larger than any operand.
  StatusOr<int64_t> SizeOf(const EinsumLabels& labels) const {
    const auto size = CheckedProduct(DimsOf(labels));
    const auto bytes = size ? CheckedMul(*size, sizeof(T)) : std::nullopt;
    if (!bytes) return DataError("a product of {} is too large", ToString(DimsOf(labels)));
    return *size;
  }
  Dims DimsOf(const EinsumLabels& labels) const {
    Dims out;
    for (const EinsumLabel label : labels) out.push_back(equation_.sizes.at(label));
    return out;
  }
  std::shared_ptr<Buffer> Room(int64_t elements) const {
    return context_.Scratch(elements * static_cast<int64_t>(sizeof(T)));
  }
  static T* MutableData(const Factor<T>& x) { return reinterpret_cast<T*>(x.owned->data()); }
  Factor<T> Dense(const EinsumLabels& labels, std::shared_ptr<Buffer> owned) const {
    Factor<T> out = {labels, DenseStrides(DimsOf(labels)), nullptr, std::move(owned)};
    out.data = MutableData(out);
    return out;
  }

  // Strides of the factor over labels of its own, in their order.
  std::vector<int64_t> StridesOver(const Factor<T>& x, const EinsumLabels& labels) const {
    std::vector<int64_t> out;
    for (const EinsumLabel label : labels) {
      out.push_back(
          x.strides[static_cast<size_t>(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin())]);
    }
    return out;
  }
  bool IsDense(const Factor<T>& x, const EinsumLabels& labels) const {
    const Dims dims = DimsOf(labels);
    const std::vector<int64_t> have = StridesOver(x, labels), want = DenseStrides(dims);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] != 1 && have[i] != want[i]) return false;
    }
    return true;
  }
  void Copy(const Factor<T>& x, const EinsumLabels& labels, T* out) const {
    StridedCopy(reinterpret_cast<const std::byte*>(x.data), 0, DimsOf(labels), StridesOver(x, labels), sizeof(T),
                reinterpret_cast<std::byte*>(out));
  }
  Status MakeDense(Factor<T>& x, const EinsumLabels& labels) const {
    if (IsDense(x, labels)) return OkStatus();
    ASSIGN_OR_RETURN(const int64_t size, SizeOf(labels));
    Factor<T> out = Dense(labels, Room(size));
    Copy(x, labels, MutableData(out));
    x = std::move(out);
    return OkStatus();
  }

  // The factor as matrices one after another, copied only when neither order of rows and columns is there already.
  StatusOr<MatrixRef<T>> Matrices(Factor<T>& x, const EinsumLabels& batch, const EinsumLabels& rows,
                                  const EinsumLabels& columns) const {
    ASSIGN_OR_RETURN(const int64_t row_count, SizeOf(rows));
    ASSIGN_OR_RETURN(const int64_t column_count, SizeOf(columns));
    if (IsDense(x, Joined(batch, columns, rows))) return MatrixRef<T>{x.data, row_count, true};
    RETURN_IF_ERROR(MakeDense(x, Joined(batch, rows, columns)));
    return MatrixRef<T>{x.data, column_count, false};
  }

  void Products(const GemmSize& size, int64_t count, const MatrixRef<T>& a, const MatrixRef<T>& b, T* c) const {
    const auto operands = [&](int64_t i) {
      return GemmOperands<T>{{a.data + i * size.m * size.k, a.stride, a.transposed},
                             {b.data + i * size.k * size.n, b.stride, b.transposed},
                             c + i * size.m * size.n,
                             size.n};
    };
    if constexpr (!std::is_integral_v<T>) {
      // Tiling is not worth it for what is hardly a matrix.
      if (size.k > kSmall || size.m * size.n > kSmall) return GemmBatch<T>(size, count, operands);
    }
    const int64_t group = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, size.m * size.n));
    ParallelFor(CeilDiv(count, group), [&](int64_t job) {
      for (int64_t i = job * group; i < std::min(count, (job + 1) * group); ++i) PlainProduct(size, operands(i));
    });
  }
  static void PlainProduct(const GemmSize& size, const GemmOperands<T>& o) {
    for (int64_t i = 0; i < size.m; ++i) {
      for (int64_t j = 0; j < size.n; ++j) {
        std::conditional_t<std::is_integral_v<T>, uint64_t, T> sum = 0;
        for (int64_t p = 0; p < size.k; ++p) {
          sum += static_cast<decltype(sum)>(*o.a.at(i, p)) * static_cast<decltype(sum)>(*o.b.at(p, j));
        }
        o.c[i * o.c_stride + j] = static_cast<T>(sum);
      }
    }
  }

  static constexpr int64_t kSmall = 16;
  static constexpr int64_t kPiece = 4096;
  const KernelContext& context_;
  const EinsumEquation& equation_;
};

}  // namespace quant
