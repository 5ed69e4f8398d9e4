#include "libquant/numerics/half_tensor.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace quant {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  // elements

class HalfProducer : public TensorProducer {
 public:
  HalfProducer(std::string name, Tensor source) : name_(std::move(name)), source_(std::move(source)) {}
  int output_count() const override { return 1; }

  Status Produce(std::span<ByteSink* const> sinks) const override {
    Tensor source = source_;
    if (source.deferred() != nullptr) {
      ASSIGN_OR_RETURN(source, source.Materialize());
    }
    std::vector<float> floats(static_cast<size_t>(std::min(kPiece, source.size())));
    std::vector<float16> halves(floats.size());
    int64_t too_large = 0;
    for (int64_t first = 0; first < source.size(); first += kPiece) {
      const auto count = static_cast<size_t>(std::min(kPiece, source.size() - first));
      const std::span values(floats.data(), count);
      RETURN_IF_ERROR(source.ReadBytes(first * 4, std::as_writable_bytes(values)));
      for (size_t i = 0; i < count; ++i) {
        halves[i] = float16(values[i]);
        too_large += std::isfinite(values[i]) && !std::isfinite(static_cast<float>(halves[i]));
      }
      RETURN_IF_ERROR(sinks[0]->Write(first * 2, std::as_bytes(std::span(halves.data(), count))));
    }
    if (too_large == 0) return OkStatus();
    return Unsupported("weight '{}' has {} {} beyond float16's largest number (65504): it can't be kept as fp16", name_,
                       too_large, too_large == 1 ? "value" : "values");
  }

 private:
  std::string name_;
  Tensor source_;
};

}  // namespace

Tensor HalfTensor(std::string name, const Tensor& source) {
  auto producer = std::make_shared<HalfProducer>(std::move(name), source);
  return Tensor::FromProducer(DType::kFloat16, source.dims(), {std::move(producer), 0});
}

}  // namespace quant
