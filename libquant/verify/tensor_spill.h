// Tensors put aside in a temporary file without a name: what a comparison has to keep of one side until the other is
// there costs no memory. The file lies in $TMPDIR, or /tmp, and is gone with the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

class TensorSpill {
 public:
  struct Place {
    int64_t offset = 0;
    DType dtype = DType::kUndefined;
    Dims dims;
  };

  // OutputError when no such file can be made.
  static StatusOr<std::unique_ptr<TensorSpill>> Create();
  ~TensorSpill();
  TensorSpill(const TensorSpill&) = delete;
  TensorSpill& operator=(const TensorSpill&) = delete;

  // Numbers only. OutputError when the disk is full.
  StatusOr<Place> Put(const Tensor& tensor);
  StatusOr<Tensor> Get(const Place& place) const;
  // Elements [begin, begin + count) as a vector; of types of whole bytes.
  StatusOr<Tensor> Get(const Place& place, int64_t begin, int64_t count) const;
  // All places are void from then on.
  void Clear() { end_ = 0; }

 private:
  Status Fill(int64_t offset, std::span<std::byte> out) const;
  TensorSpill(int fd, std::string folder) : fd_(fd), folder_(std::move(folder)) {}
  int fd_;
  std::string folder_;
  int64_t end_ = 0;
};

}  // namespace quant
