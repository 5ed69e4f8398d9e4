#include "libquant/numerics/half_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace quant {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  // elements

// Rounds a piece; values beyond the type's largest saturate. Counts.
template <typename Half>
void Round(std::span<const float> values, std::span<Half> halves, HalfLosses& losses) {
  for (size_t i = 0; i < values.size(); ++i) {
    Half half(values[i]);
    if (std::isfinite(values[i]) && !std::isfinite(static_cast<float>(half))) {
      half = values[i] > 0 ? std::numeric_limits<Half>::max() : std::numeric_limits<Half>::lowest();
      ++losses.saturated;
    }
    losses.to_zero += values[i] != 0.0f && static_cast<float>(half) == 0.0f;
    halves[i] = half;
  }
}

template <typename Half>
StatusOr<HalfLosses> Stream(const Tensor& given, ByteSink& sink) {
  Tensor source = given;
  if (source.deferred() != nullptr) {
    ASSIGN_OR_RETURN(source, source.Materialize());
  }
  std::vector<float> floats(static_cast<size_t>(std::min(kPiece, source.size())));
  std::vector<Half> halves(floats.size());
  HalfLosses losses;
  losses.counted = true;
  for (int64_t first = 0; first < source.size(); first += kPiece) {
    const auto count = static_cast<size_t>(std::min(kPiece, source.size() - first));
    const std::span values(floats.data(), count);
    RETURN_IF_ERROR(source.ReadBytes(first * 4, std::as_writable_bytes(values)));
    Round<Half>(values, std::span(halves.data(), count), losses);
    RETURN_IF_ERROR(sink.Write(first * 2, std::as_bytes(std::span(halves.data(), count))));
  }
  return losses;
}

class HalfProducer : public TensorProducer {
 public:
  HalfProducer(std::string name, Tensor source) : name_(std::move(name)), source_(std::move(source)) {}
  int output_count() const override { return 1; }

  Status Produce(std::span<ByteSink* const> sinks) const override {
    ASSIGN_OR_RETURN(const HalfLosses losses, Stream<float16>(source_, *sinks[0]));
    if (losses.saturated == 0) return OkStatus();
    return Unsupported("weight '{}' has {} {} beyond float16's largest number (65504): it can't be kept as fp16", name_,
                       losses.saturated, losses.saturated == 1 ? "value" : "values");
  }

 private:
  std::string name_;
  Tensor source_;
};

class SaturatedProducer : public TensorProducer {
 public:
  SaturatedProducer(DType type, Tensor source, std::shared_ptr<HalfLosses> losses)
      : type_(type), source_(std::move(source)), losses_(std::move(losses)) {}
  int output_count() const override { return 1; }

  Status Produce(std::span<ByteSink* const> sinks) const override {
    if (type_ == DType::kBfloat16) {
      ASSIGN_OR_RETURN(*losses_, Stream<bfloat16>(source_, *sinks[0]));
    } else {
      ASSIGN_OR_RETURN(*losses_, Stream<float16>(source_, *sinks[0]));
    }
    return OkStatus();
  }

 private:
  DType type_;
  Tensor source_;
  std::shared_ptr<HalfLosses> losses_;
};

}  // namespace

Tensor HalfTensor(std::string name, const Tensor& source) {
  auto producer = std::make_shared<HalfProducer>(std::move(name), source);
  return Tensor::FromProducer(DType::kFloat16, source.dims(), {std::move(producer), 0});
}

Tensor SaturatedHalfTensor(DType type, const Tensor& source, std::shared_ptr<HalfLosses> losses) {
  auto producer = std::make_shared<SaturatedProducer>(type, source, std::move(losses));
  return Tensor::FromProducer(type, source.dims(), {std::move(producer), 0});
}

}  // namespace quant
