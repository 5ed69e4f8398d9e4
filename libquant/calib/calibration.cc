#include "libquant/calib/calibration.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "libquant/calib/channel_spans.h"
#include "libquant/calib/observe.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

constexpr size_t kNamed = 5;

bool IsFloating(DType dtype) { return dtype == DType::kFloat || dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

// The elements as float32.
std::vector<float> Widened(const Tensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.size()));
  const auto widen = [&](const auto values) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i]);
  };
  if (tensor.dtype() == DType::kFloat16) {
    widen(tensor.data<float16>());
  } else {
    widen(tensor.data<bfloat16>());
  }
  return out;
}

// Largest finite magnitudes by channel, into `absmax`; emptied for good when the number of channels changes.
void NoteChannels(std::span<const float> values, const Dims& dims, int64_t from_end, bool first,
                  std::vector<float>& absmax) {
  const auto channels = static_cast<size_t>(ChannelCount(dims, from_end));
  if (first) absmax.assign(channels, 0);
  if (absmax.size() != channels) absmax.clear();
  if (absmax.empty()) return;
  ForEachChannelSpan(values, dims, from_end, [&](size_t c, std::span<const float> span) {
    for (const float value : span) {
      const float x = std::fabs(value);
      if (x > absmax[c] && std::isfinite(x)) absmax[c] = x;
    }
  });
}

class Calibrator {
 public:
  Calibrator(const std::vector<RangeWanted>& wanted, const RangeOptions& options) {
    out_.options = options;
    for (const RangeWanted& w : wanted) {
      out_.values[w.name];
      axes_[w.name] = w.channel_axis;
    }
  }

  bool Wants(const std::string& name) const { return axes_.contains(name); }

  Status Note(const std::string& name, const Tensor& tensor) {
    const auto found = out_.values.find(name);
    if (found == out_.values.end() || !IsFloating(tensor.dtype()) || tensor.size() == 0) return OkStatus();
    std::vector<float> widened;
    if (tensor.dtype() != DType::kFloat) widened = Widened(tensor);
    const std::span<const float> values =
        tensor.dtype() == DType::kFloat ? tensor.data<float>() : std::span<const float>(widened);
    CalibratedValue& value = found->second;
    if (const auto& axis = axes_[name])
      NoteChannels(values, tensor.dims(), *axis, value.samples == 0, value.channel_absmax);
    const int64_t before = value.histogram.count();
    if (out_.options.method != RangeMethod::kMovingAverage) {
      value.histogram.Add(values);
    } else {
      ValueHistogram sample;
      sample.Add(values);
      Average(sample, value);
      value.histogram.Merge(sample);
    }
    value.samples += value.histogram.count() > before ? 1 : 0;
    return OkStatus();
  }

  Calibration Done(int64_t samples) {
    out_.samples = samples;
    return std::move(out_);
  }

 private:
  void Average(const ValueHistogram& sample, CalibratedValue& value) const {
    if (sample.count() == 0) return;
    const double keep = value.samples == 0 ? 0 : out_.options.momentum;
    value.average_min = keep * value.average_min + (1 - keep) * static_cast<double>(sample.min());
    value.average_max = keep * value.average_max + (1 - keep) * static_cast<double>(sample.max());
  }

  Calibration out_;
  std::map<std::string, std::optional<int64_t>> axes_;
};

}  // namespace

Status Calibration::Merge(const Calibration& other) {
  if (options.method == RangeMethod::kMovingAverage || other.options.method == RangeMethod::kMovingAverage) {
    return UsageError(
        "moving averages depend on the order of samples and can't be merged; calibrate with another method");
  }
  if (options.method != other.options.method || options.percentile != other.options.percentile ||
      options.bits != other.options.bits) {
    return UsageError("ranges by {} and by {}, or with other options, can't be merged", NameOf(options.method),
                      NameOf(other.options.method));
  }
  for (const auto& entry : other.values) {
    if (!values.contains(entry.first))
      return UsageError("only one of them has {}: they are of different models", entry.first);
  }
  for (auto& [name, value] : values) {
    const auto found = other.values.find(name);
    if (found == other.values.end()) return UsageError("only one of them has {}: they are of different models", name);
    const CalibratedValue& more = found->second;
    if (value.samples == 0) {
      value.channel_absmax = more.channel_absmax;
    } else if (more.samples > 0 && value.channel_absmax.size() != more.channel_absmax.size()) {
      value.channel_absmax.clear();
    } else {
      for (size_t i = 0; i < more.channel_absmax.size(); ++i) {
        value.channel_absmax[i] = std::max(value.channel_absmax[i], more.channel_absmax[i]);
      }
    }
    value.histogram.Merge(more.histogram);
    value.samples += more.samples;
  }
  samples += other.samples;
  return OkStatus();
}

ValueRange Calibration::RangeOfValue(const CalibratedValue& value) const {
  ValueRange range;
  if (options.method == RangeMethod::kMovingAverage) {
    range.min = static_cast<float>(value.average_min);
    range.max = static_cast<float>(value.average_max);
  } else {
    range = RangeOf(value.histogram, options);
  }
  range.channel_absmax = value.channel_absmax;
  return range;
}

StatusOr<ValueRanges> Calibration::Ranges(NonFinite non_finite) const {
  ValueRanges ranges;
  std::vector<std::string> bad;
  for (const auto& [name, value] : values) {
    const ValueHistogram& h = value.histogram;
    if (h.nans() + h.infinities() > 0)
      bad.push_back(fmt::format("{} ({} NaN, {} infinite)", name, h.nans(), h.infinities()));
    if (h.count() > 0) ranges[name] = RangeOfValue(value);
  }
  if (bad.empty() || non_finite == NonFinite::kClamp) return ranges;
  const size_t all = bad.size();
  bad.resize(std::min(all, kNamed));
  return DataError(
      "{} of {} values were NaN or infinite on the samples: {}{}; mend the samples or the model, or pass over "
      "them with --clamp-non-finite",
      all, values.size(), fmt::join(bad, ", "), all > kNamed ? ", ..." : "");
}

StatusOr<Calibration> Calibrate(const Model& model, const std::vector<RangeWanted>& wanted, SampleSource& samples,
                                const RangeOptions& options,
                                const std::function<void(int64_t done, int64_t all)>& progress) {
  if (samples.count() == 0) return DataError("there is no sample to calibrate on");
  Calibrator calibrator(wanted, options);
  RETURN_IF_ERROR(ObserveValues(
      model, samples, [&](const std::string& name) { return calibrator.Wants(name); },
      [&](const std::string& name, const Tensor& tensor) { return calibrator.Note(name, tensor); }, progress));
  return calibrator.Done(samples.count());
}

std::vector<RangeWanted> AllFloatValues(const Model& model) {
  const Graph& graph = model.graph;
  std::map<ValueId, int64_t> axes;
  for (const NodeId id : graph.main().nodes) {
    const Node& node = graph.node(id);
    const OpDef* op = FindOp(node.domain, node.op_type);
    const auto* role = op == nullptr ? nullptr : std::get_if<Weighted>(&op->role);
    if (role == nullptr || static_cast<size_t>(role->activation) >= node.inputs.size()) continue;
    const ValueId v = node.inputs[static_cast<size_t>(role->activation)];
    if (v == kNoValue) continue;
    // A matrix sums over its last axis; a convolution's channels are the second.
    const auto& shape = graph.value(v).shape;
    if (role->reduction_axis != nullptr) {
      axes.emplace(v, -1);
    } else if (shape && shape->size() > 1) {
      axes.emplace(v, 1 - static_cast<int64_t>(shape->size()));
    }
  }
  std::vector<RangeWanted> wanted;
  const auto add = [&](ValueId v) {
    if (v == kNoValue) return;
    const Value& value = graph.value(v);
    if (!IsFloating(value.dtype) || value.constant || value.uses.empty()) return;
    const auto axis = axes.find(v);
    wanted.push_back({value.name, axis == axes.end() ? std::nullopt : std::optional(axis->second)});
  };
  for (const ValueId v : graph.main().inputs) add(v);
  for (const NodeId id : graph.main().nodes) {
    for (const ValueId v : graph.node(id).outputs) add(v);
  }
  return wanted;
}

}  // namespace quant
