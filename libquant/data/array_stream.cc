#include "libquant/data/array_stream.h"

#include <cstring>
#include <new>

#include "libquant/base/memory.h"

namespace quant {
namespace {

// Any byte but 0 is true for NumPy; a bool in C++ is 0 or 1.
void MakeBools(Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return;
  for (std::byte& b : tensor.mutable_bytes()) b = std::byte{b != std::byte{0}};
}

// `in` holds the elements with the first axis running fastest.
void FromFortranOrder(const Tensor& in, Tensor& out) {
  const Dims& dims = out.dims();
  const auto width = static_cast<size_t>(InfoOf(in.dtype()).bits / 8);
  Dims strides(dims.size(), 1);
  for (size_t k = 1; k < dims.size(); ++k) strides[k] = strides[k - 1] * dims[k - 1];
  Dims index(dims.size(), 0);
  int64_t from = 0;
  for (int64_t to = 0; to < out.size(); ++to) {
    std::memcpy(out.mutable_bytes().data() + static_cast<size_t>(to) * width,
                in.bytes().data() + static_cast<size_t>(from) * width, width);
    for (size_t k = dims.size(); k-- > 0;) {
      from += strides[k];
      if (++index[k] < dims[k]) break;
      from -= strides[k] * dims[k];
      index[k] = 0;
    }
  }
}

}  // namespace

StatusOr<Tensor> TryAllocate(const std::string& what, DType dtype, Dims dims) {
  const auto bytes = BytesFor(dtype, dims);
  if (bytes && *bytes < PhysicalMemory()) {
    try {
      return Tensor::Allocate(dtype, dims);
    } catch (const std::bad_alloc&) {
    }
  }
  return DataError("{}: {}[{}] does not fit in memory", what, NameOf(dtype), ToString(dims));
}

StatusOr<std::unique_ptr<ArrayStream>> ArrayStream::Open(std::string what, std::unique_ptr<ByteStream> bytes) {
  ASSIGN_OR_RETURN(NpyHeader header, ReadNpyHeader(what, *bytes));
  return std::unique_ptr<ArrayStream>(new ArrayStream(std::move(what), std::move(bytes), std::move(header)));
}

StatusOr<Tensor> ArrayStream::ReadAll() {
  if (whole_) return *whole_;
  ASSIGN_OR_RETURN(Tensor tensor, TryAllocate(what_, dtype(), dims()));
  RETURN_IF_ERROR(bytes_->Read(header_.data_offset, tensor.mutable_bytes()));
  MakeBools(tensor);
  if (!header_.fortran_order || tensor.rank() < 2) return tensor;
  ASSIGN_OR_RETURN(Tensor turned, TryAllocate(what_, dtype(), dims()));
  FromFortranOrder(tensor, turned);
  return turned;
}

StatusOr<Tensor> ArrayStream::ReadRow(int64_t i) {
  if (dims().empty() || i < 0 || i >= dims()[0]) return BugError("row {} of {}", i, what_);
  if (header_.fortran_order && !whole_) {
    ASSIGN_OR_RETURN(whole_, ReadAll());
  }
  Dims row = dims();
  row[0] = 1;
  ASSIGN_OR_RETURN(Tensor tensor, TryAllocate(what_, dtype(), std::move(row)));
  const int64_t offset = i * tensor.byte_size();
  if (whole_) {
    RETURN_IF_ERROR(whole_->ReadBytes(offset, tensor.mutable_bytes()));
  } else {
    RETURN_IF_ERROR(bytes_->Read(header_.data_offset + offset, tensor.mutable_bytes()));
    MakeBools(tensor);
  }
  return tensor;
}

}  // namespace quant
