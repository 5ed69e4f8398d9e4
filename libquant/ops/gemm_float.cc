// The float32 tile of gemm.h: a's rows and b's columns are copied into the order in which the kernel reads them, up to
// kGemmDepth of the sum at a time, and the parts of the sum are added to c one after another. Depth, kernel and order
// of addition don't depend on the tile, so an element of c has the same bytes wherever tiles are cut.
#include <Eigen/Core>
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "libquant/base/checked.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/gemm_kernel.h"

namespace quant {
namespace {

// With fewer rows than this, copying b costs more than reading it where it lies.
constexpr int64_t kRowsWorthCopying = 13;

// A thread's space for copies, kept from call to call.
class CopySpace {
 public:
  float* Get(int64_t floats) {
    if (floats > size_) {
      data_.reset(
          static_cast<float*>(::operator new (static_cast<size_t>(floats) * sizeof(float), std::align_val_t{64})));
      size_ = floats;
    }
    return data_.get();
  }

 private:
  struct Delete {
    void operator()(float* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<float, Delete> data_;
  int64_t size_ = 0;
};

using Packet = Eigen::internal::packet_traits<float>::type;
constexpr int64_t kPacket = Eigen::internal::packet_traits<float>::size;

// Transposes a block of kPacket lines, `stride` apart, of kPacket elements: element p of line r goes to
// out[p * width + r]. Lines from `lines` on are taken as 0.
void TransposeBlock(const float* in, int64_t stride, int64_t lines, int64_t width, float* out) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"  // a vector type loses its alignment as a template argument
  Eigen::internal::PacketBlock<Packet, static_cast<int>(kPacket)> block;
#pragma GCC diagnostic pop
  for (int64_t r = 0; r < kPacket; ++r) {
    block.packet[r] = r < lines ? Eigen::internal::ploadu<Packet>(in + r * stride) : Eigen::internal::pset1<Packet>(0);
  }
  Eigen::internal::ptranspose(block);
  for (int64_t p = 0; p < kPacket; ++p) Eigen::internal::pstoreu(out + p * width, block.packet[p]);
}

// `lines` lines of `depth` elements to out[p * width + line]. May write up to a packet per p, in order of p, so what
// lies behind must be written later (or be room).
void TransposeLines(const float* in, int64_t stride, int64_t lines, int64_t depth, int64_t width, float* out) {
  for (int64_t r = 0; r < lines; r += kPacket) {
    const int64_t count = std::min(kPacket, lines - r);
    int64_t p = 0;
    for (; p + kPacket <= depth; p += kPacket)
      TransposeBlock(in + r * stride + p, stride, count, width, out + p * width + r);
    for (; p < depth; ++p) {
      for (int64_t i = r; i < r + count; ++i) out[p * width + i] = in[i * stride + p];
    }
  }
}

// Rows of a, kKernelRows at a time: out[panel][p][row].
void CopyRows(const MatrixRef<float>& a, int64_t m, int64_t depth, float* out) {
  for (int64_t i = 0; i < m; i += kKernelRows, out += depth * kKernelRows) {
    const int64_t rows = std::min(kKernelRows, m - i);
    if (a.transposed) {
      for (int64_t p = 0; p < depth; ++p) std::copy_n(a.at(i, p), rows, out + p * kKernelRows);
    } else {
      TransposeLines(a.at(i, 0), a.stride, rows, depth, kKernelRows, out);
    }
  }
}

// One strip of columns: out[p][column], zeros past the last.
void CopyStrip(const MatrixRef<float>& b, int64_t depth, int64_t columns, int64_t width, float* out) {
  if (columns < width) std::fill_n(out, depth * width, 0.0F);
  if (b.transposed) return TransposeLines(b.data, b.stride, columns, depth, width, out);
  const auto bytes = static_cast<size_t>(columns) * sizeof(float);
  if (columns == width && width == 32) {  // a constant size spares the call
    for (int64_t p = 0; p < depth; ++p) std::memcpy(out + p * width, b.at(p, 0), 32 * sizeof(float));
  } else if (columns == width && width == 16) {
    for (int64_t p = 0; p < depth; ++p) std::memcpy(out + p * width, b.at(p, 0), 16 * sizeof(float));
  } else {
    for (int64_t p = 0; p < depth; ++p) std::memcpy(out + p * width, b.at(p, 0), bytes);
  }
}

struct Strip {
  const float* data;
  int64_t stride;
};

// All rows times one strip of `columns` columns.
void MultiplyStrip(const GemmKernel& kernel, const float* rows, int64_t m, int64_t depth, const Strip& strip,
                   int64_t columns, float* c, int64_t c_stride, bool add) {
  for (int64_t i = 0; i < m; i += kKernelRows, rows += depth * kKernelRows) {
    const int64_t count = std::min(kKernelRows, m - i);
    const auto run = kernel.by_rows[count - 1];
    float* to = c + i * c_stride;
    if (columns == kernel.columns) {
      run(depth, rows, strip.data, strip.stride, to, c_stride, add);
      continue;
    }
    float part[kKernelRows * kMaxKernelColumns];
    run(depth, rows, strip.data, strip.stride, part, kernel.columns, false);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t j = 0; j < columns; ++j) {
        const float sum = part[r * kernel.columns + j];
        to[r * c_stride + j] = add ? to[r * c_stride + j] + sum : sum;
      }
    }
  }
}

}  // namespace

PackedRows::PackedRows(const MatrixRef<float>& a, int64_t m, int64_t k)
    : m_(CeilDiv(m, kKernelRows) * kKernelRows), k_(k) {
  data_ = std::make_shared<Buffer>((m_ * k_ + kPacket) * static_cast<int64_t>(sizeof(float)));
  auto* out = reinterpret_cast<float*>(data_->data());
  for (int64_t p = 0; p < k; p += kGemmDepth) CopyRows(a.Block(0, p), m, std::min(kGemmDepth, k - p), out + m_ * p);
}

const float* PackedRows::At(int64_t row, int64_t p) const {
  return reinterpret_cast<const float*>(data_->data()) + m_ * p + row * std::min(kGemmDepth, k_ - p);
}

void ScatteredTile(const GemmSize& size, const PackedRows& a, int64_t row, const float* b, const int64_t* offsets,
                   float* c, int64_t c_stride, bool add) {
  const GemmKernel& kernel = BestGemmKernel();
  for (int64_t p = 0; p < size.k; p += kGemmDepth) {
    const int64_t depth = std::min(kGemmDepth, size.k - p);
    for (int64_t j = 0; j < size.n; j += kernel.columns) {
      const float* rows = a.At(row, p);
      for (int64_t i = 0; i < size.m; i += kKernelRows, rows += depth * kKernelRows) {
        const auto run = kernel.scattered_by_rows[std::min(kKernelRows, size.m - i) - 1];
        run(depth, rows, b + j, offsets + p, c + i * c_stride + j, c_stride, add || p > 0);
      }
    }
  }
}

void FloatTile(const GemmSize& size, const GemmOperands<float>& o) {
  const GemmKernel& kernel = BestGemmKernel();
  const int64_t panels = CeilDiv(size.m, kKernelRows);
  thread_local CopySpace space;
  const int64_t depth_limit = std::min(kGemmDepth, size.k);
  const int64_t rows_room = CeilDiv(panels * kKernelRows * depth_limit + kPacket, 16) * 16;
  float* rows = space.Get(rows_room + depth_limit * kernel.columns + kPacket);
  float* copy = rows + rows_room;
  // Rows of b as close together as in a copy need none.
  const bool in_place = !o.b.transposed && (size.m < kRowsWorthCopying || o.b.stride <= kMaxKernelColumns);
  for (int64_t p = 0; p < size.k; p += kGemmDepth) {
    const int64_t depth = std::min(kGemmDepth, size.k - p);
    const float* packed = rows;
    if (o.packed != nullptr) {
      packed = o.packed->At(o.packed_row, p);
    } else {
      CopyRows(o.a.Block(0, p), size.m, depth, rows);
    }
    for (int64_t j = 0; j < size.n; j += kernel.columns) {
      const int64_t columns = std::min(kernel.columns, size.n - j);
      const MatrixRef<float> b = o.b.Block(p, j);
      Strip strip = {b.data, b.stride};
      if (!in_place || columns < kernel.columns) {
        CopyStrip(b, depth, columns, kernel.columns, copy);
        strip = {copy, kernel.columns};
      }
      MultiplyStrip(kernel, packed, size.m, depth, strip, columns, o.c + j, o.c_stride, o.add || p > 0);
    }
  }
}

}  // namespace quant
