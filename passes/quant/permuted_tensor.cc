#include "passes/quant/permuted_tensor.h"

#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

constexpr int64_t kPiece = int64_t{8} << 20;

class PermutedTensor : public TensorProducer {
 public:
  PermutedTensor(Tensor source, Dims dims, std::vector<int64_t> perm)
      : source_(std::move(source)), dims_(std::move(dims)), perm_(std::move(perm)) {}
  int output_count() const override { return 1; }

  Status Produce(std::span<ByteSink* const> sinks) const override {
    ASSIGN_OR_RETURN(const Tensor source, source_.Materialize());
    ASSIGN_OR_RETURN(const int64_t element, ElementBytes(source));
    const std::vector<int64_t> from = DenseStrides(source.dims());
    std::vector<int64_t> strides;
    for (int64_t axis : perm_) strides.push_back(from[static_cast<size_t>(axis)]);
    // Slices along the first axis, some at a time.
    const int64_t slices = dims_[0];
    const int64_t slice = slices == 0 ? 0 : source.byte_size() / slices;
    const int64_t together = std::max<int64_t>(1, slice == 0 ? slices : kPiece / slice);
    std::vector<std::byte> piece;
    for (int64_t first = 0; first < slices; first += together) {
      Dims dims = dims_;
      dims[0] = std::min(together, slices - first);
      piece.resize(static_cast<size_t>(dims[0] * slice));
      StridedCopy(source.bytes().data(), first * strides[0], dims, strides, element, piece.data());
      RETURN_IF_ERROR(sinks[0]->Write(first * slice, piece));
    }
    return OkStatus();
  }

 private:
  Tensor source_;
  Dims dims_;
  std::vector<int64_t> perm_;
};

}  // namespace

Tensor Permuted(const Tensor& source, const std::vector<int64_t>& perm) {
  Dims dims;
  int64_t last = -1;
  bool in_order = true;  // the axes that are longer than 1
  for (int64_t axis : perm) {
    const int64_t dim = source.dims()[static_cast<size_t>(axis)];
    dims.push_back(dim);
    if (dim == 1) continue;
    in_order = in_order && axis > last;
    last = axis;
  }
  if (in_order) return source.Reshaped(std::move(dims));
  auto producer = std::make_shared<PermutedTensor>(source, dims, perm);
  return Tensor::FromProducer(source.dtype(), std::move(dims), {std::move(producer), 0});
}

}  // namespace quant
