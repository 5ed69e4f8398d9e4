#include "libquant/numerics/weight_producer.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/numerics/unit_quantizer.h"
#include "libquant/numerics/weight_plan.h"

namespace quant {
namespace {

// Elements of a piece when the whole weight is read in storage order.
constexpr int64_t kFlatPiece = int64_t{1} << 18;

// The first failure of several threads.
class FirstFailure {
 public:
  void Note(const Status& status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (first_.ok()) first_ = status;
    failed_ = true;
  }
  bool failed() const { return failed_; }
  const Status& status() const { return first_; }

 private:
  std::mutex mutex_;
  Status first_;
  std::atomic<bool> failed_{false};
};

class WeightProducer : public TensorProducer {
 public:
  WeightProducer(WeightPlan plan, Tensor source) : plan_(std::move(plan)), source_(std::move(source)) {}
  int output_count() const override { return plan_.zero_points ? 3 : 2; }
  Status Produce(std::span<ByteSink* const> sinks) const override;
  const WeightPlan& plan() const { return plan_; }
  const Tensor& source() const { return source_; }

 private:
  Status ChooseForTensor(WeightRun& run) const;
  StatusOr<RangeStats> WholeRange(const WeightSource& source) const;
  StatusOr<double> WholeError(const WeightSource& source, float scale, const RangeStats& range) const;
  Status RunUnits(WeightRun& run) const;
  Status WriteForTensor(ScaleZero sz, std::span<ByteSink* const> sinks) const;
  Status NonFiniteError(int64_t count) const {
    return DataError(
        "weight '{}' holds {} NaN or infinite {}; repair the model, or have NaN clamped to 0 and infinities to the "
        "largest finite magnitude of their group",
        plan_.name, count, count == 1 ? "value" : "values");
  }
  Status OverflowError() const {
    return Unsupported("weight '{}' reaches float16's largest number (65504); store its scales as float32", plan_.name);
  }

  WeightPlan plan_;
  Tensor source_;
};

Status WeightProducer::Produce(std::span<ByteSink* const> sinks) const {
  if (sinks.size() != static_cast<size_t>(output_count())) {
    return BugError("weight '{}': {} sinks for {} outputs", plan_.name, sinks.size(), output_count());
  }
  Tensor materialized = source_;
  if (source_.deferred() != nullptr) {
    ASSIGN_OR_RETURN(materialized, source_.Materialize());
  }
  const WeightSource source(materialized, plan_.view);
  const int64_t channels = plan_.view.channels;
  const bool rm = plan_.reduction_major();
  const int64_t code_rows = plan_.code_rows();
  CodeWriter codes(sinks[0], plan_.bits(), code_rows, code_rows == 0 ? 0 : channels * plan_.padded / code_rows);
  const int64_t zero_row = plan_.zero_row();
  CodeWriter zeros(plan_.zero_points ? sinks[2] : nullptr, plan_.bits(), rm ? zero_row : channels,
                   rm ? channels : zero_row);
  WeightRun run(plan_, source, codes, *sinks[1], plan_.zero_points ? &zeros : nullptr);
  if (plan_.per_tensor()) {
    RETURN_IF_ERROR(ChooseForTensor(run));
    if (plan_.layout != CodeLayout::kNBits) RETURN_IF_ERROR(WriteForTensor(*run.fixed, sinks));
  }
  RETURN_IF_ERROR(RunUnits(run));
  if (run.non_finite > 0 && plan_.spec.non_finite == NonFinite::kError) return NonFiniteError(run.non_finite);
  if (run.overflow) return OverflowError();
  RETURN_IF_ERROR(codes.Finish());
  return zeros.Finish();
}

Status WeightProducer::RunUnits(WeightRun& run) const {
  FirstFailure failure;
  std::mutex mutex;
  std::vector<std::unique_ptr<UnitQuantizer>> idle;  // buffers are as many as threads ever worked at once
  ParallelFor(plan_.unit_count(), [&](int64_t i) {
    if (failure.failed()) return;
    std::unique_ptr<UnitQuantizer> quantizer;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        quantizer = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!quantizer) quantizer = std::make_unique<UnitQuantizer>(run);
    failure.Note(quantizer->Run(plan_.unit(i)));
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(quantizer));
  });
  return failure.status();
}

StatusOr<RangeStats> WeightProducer::WholeRange(const WeightSource& source) const {
  const int64_t size = plan_.view.channels * plan_.view.reduction;
  RangeStats whole;
  std::mutex mutex;
  FirstFailure failure;
  ParallelFor(CeilDiv(size, kFlatPiece), [&](int64_t i) {
    if (failure.failed()) return;
    const int64_t first = i * kFlatPiece;
    const int64_t count = std::min(kFlatPiece, size - first);
    RangeStats piece;
    if (const float* owned = source.OwnedFloats()) {
      piece.Add({owned + first, static_cast<size_t>(count)});
    } else {
      std::vector<float> values(static_cast<size_t>(count));
      std::vector<std::byte> raw;
      failure.Note(source.ReadFlat(first, count, values.data(), raw));
      if (failure.failed()) return;
      piece.Add(values);
    }
    const std::lock_guard lock(mutex);
    whole.Merge(piece);
  });
  RETURN_IF_ERROR(failure.status());
  return whole;
}

// One sum over the whole weight in storage order, so one thread.
StatusOr<double> WeightProducer::WholeError(const WeightSource& source, float scale, const RangeStats& range) const {
  const int64_t size = plan_.view.channels * plan_.view.reduction;
  std::vector<float> values(static_cast<size_t>(std::min(kFlatPiece, size)));
  std::vector<std::byte> raw;
  double error = 0;
  for (int64_t first = 0; first < size; first += kFlatPiece) {
    const int64_t count = std::min(kFlatPiece, size - first);
    RETURN_IF_ERROR(source.ReadFlat(first, count, values.data(), raw));
    if (range.non_finite > 0) {
      for (float& v : values) v = v != v ? 0.0f : std::clamp(v, range.min, range.max);
    }
    // As a panel of one column: the sum runs down the rows.
    ColumnErrors({values.data(), 1, count, 1}, &scale, plan_.rule.qmin - plan_.rule.zero_point,
                 plan_.rule.qmax - plan_.rule.zero_point, &error);
  }
  return error;
}

Status WeightProducer::ChooseForTensor(WeightRun& run) const {
  ASSIGN_OR_RETURN(RangeStats range, WholeRange(run.source));
  if (range.non_finite > 0 && plan_.spec.non_finite == NonFinite::kError) return NonFiniteError(range.non_finite);
  run.fixed_limit = range.absmax();
  range.TakeInfinitiesAsLargest();
  ScaleZero sz;
  if (!ChooseScales(plan_.rule, 1, &range.min, &range.max, &sz.scale, &sz.zero_point)) return OverflowError();
  if (plan_.spec.least_scales) sz.scale = std::max(sz.scale, plan_.spec.least_scales->front());
  if (plan_.rule.try_negative) {
    float negative;
    ChooseNegativeScales(plan_.rule, 1, &range.min, &range.max, &negative);
    ASSIGN_OR_RETURN(const double error, WholeError(run.source, sz.scale, range));
    ASSIGN_OR_RETURN(const double negative_error, WholeError(run.source, negative, range));
    if (negative_error < error) sz.scale = negative;
  }
  run.fixed = sz;
  return OkStatus();
}

Status WeightProducer::WriteForTensor(ScaleZero sz, std::span<ByteSink* const> sinks) const {
  const float16 half(sz.scale);
  RETURN_IF_ERROR(sinks[1]->Write(
      0, plan_.rule.half_scales ? std::as_bytes(std::span(&half, 1)) : std::as_bytes(std::span(&sz.scale, 1))));
  if (!plan_.zero_points) return OkStatus();
  // A 4-bit scalar is a byte with an empty high half.
  const auto zero = static_cast<std::byte>(sz.zero_point);
  return sinks[2]->Write(0, std::span(&zero, 1));
}

// The deferred tensors of a plan.
QuantizedWeight Outputs(WeightPlan plan, const Tensor& source) {
  const auto producer = std::make_shared<WeightProducer>(plan, source);
  QuantizedWeight out;
  out.codes = Tensor::FromProducer(plan.code_dtype, plan.code_dims, {producer, 0});
  out.scales = Tensor::FromProducer(plan.spec.scale_dtype, plan.scale_dims, {producer, 1});
  out.bits = (out.codes.byte_size() + out.scales.byte_size()) * 8;
  if (plan.zero_points) {
    out.zero_points = Tensor::FromProducer(plan.zero_dtype, plan.zero_dims, {producer, 2});
    out.bits += out.zero_points->byte_size() * 8;
  }
  return out;
}

}  // namespace

StatusOr<QuantizedWeight> QuantizeWeight(const std::string& name, const Tensor& source, const MatrixView& view,
                                         const QuantSpec& spec, CodeLayout layout) {
  ASSIGN_OR_RETURN(WeightPlan plan, PlanWeight(name, source, view, spec, layout));
  return Outputs(std::move(plan), source);
}

StatusOr<QuantizedWeight> WithLeastScales(const Tensor& codes, std::vector<float> least) {
  const Deferred* deferred = codes.deferred();
  const auto* producer = deferred == nullptr ? nullptr : dynamic_cast<const WeightProducer*>(deferred->producer.get());
  if (producer == nullptr) return BugError("{} are no codes of a weight to be quantized", Describe(codes));
  WeightPlan plan = producer->plan();
  plan.spec.least_scales = std::make_shared<const std::vector<float>>(std::move(least));
  return Outputs(std::move(plan), producer->source());
}

}  // namespace quant
