// One array of a .npy file or an .npz archive, read whole or row by row: rows cost a row's memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "libquant/data/npy_header.h"
#include "libquant/ir/tensor.h"

namespace quant {

class ArrayStream {
 public:
  // `what` names it in messages.
  static StatusOr<std::unique_ptr<ArrayStream>> Open(std::string what, std::unique_ptr<ByteStream> bytes);

  const std::string& what() const { return what_; }
  DType dtype() const { return header_.dtype; }
  const Dims& dims() const { return header_.dims; }

  StatusOr<Tensor> ReadAll();
  // Row `i` along the first axis, of dims [1, ...]. Cheapest in ascending order; an array in Fortran order is kept
  // whole.
  StatusOr<Tensor> ReadRow(int64_t i);

 private:
  ArrayStream(std::string what, std::unique_ptr<ByteStream> bytes, NpyHeader header)
      : what_(std::move(what)), bytes_(std::move(bytes)), header_(std::move(header)) {}
  std::string what_;
  std::unique_ptr<ByteStream> bytes_;
  NpyHeader header_;
  std::optional<Tensor> whole_;
};

// An owned tensor of these dims; DataError naming `what` when it does not fit in memory.
StatusOr<Tensor> TryAllocate(const std::string& what, DType dtype, Dims dims);

}  // namespace quant
