#include "libquant/search/improve.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libquant/calib/calibration.h"
#include "libquant/calib/channel_means.h"
#include "libquant/model/expand_operators.h"
#include "libquant/search/some_samples.h"
#include "libquant/search/trial.h"
#include "passes/quant/bias_correction.h"
#include "passes/quant/channel_balance.h"
#include "passes/quant/static_quant.h"

namespace quant {
namespace {

using Kind = Improvement::Kind;

constexpr int64_t kMeasured = 32;  // samples

// A float model, what its values range over, and what comes of it.
struct State {
  Model model;
  ValueRanges ranges;
  Model quantized;
  double sqnr = 0;
};

// NaN, of answers that are not finite, counts as the worst.
double WorstOf(const DiffReport& diff) {
  double worst = std::numeric_limits<double>::infinity();
  for (const DiffOutput& output : diff.outputs) {
    const double db = output.metrics.sqnr_db();
    worst = std::min(worst, std::isnan(db) ? -std::numeric_limits<double>::infinity() : db);
  }
  return worst;
}

class Improver {
 public:
  Improver(const std::string& path, const QuantizePlan& weights, const IntegerPlan& integers,
           const QuantizeOptions& options, SampleSource& samples, const RangeOptions& range,
           const std::function<void(int64_t, int64_t)>& progress)
      : path_(path),
        weights_(weights),
        integers_(integers),
        options_(options),
        samples_(samples),
        measured_(SomeSamples(samples, kMeasured)),
        range_(range),
        progress_(progress) {
    // Answers are compared as floats, and the forms compute the same.
    options_.integer_io = false;
    options_.emit = Emit::kQdq;
  }

  StatusOr<Improved> Run(Model& model) {
    TrialOptions trial;
    trial.progress = progress_;
    ASSIGN_OR_RETURN(trials_, Trials::Make(path_, model, *measured_, trial));
    State best;
    best.model = model;
    ASSIGN_OR_RETURN(best.ranges, RangesOf(model));
    RETURN_IF_ERROR(Measure(best));
    Improved out;
    for (const Improvement& what : options_.improve) {
      TriedImprovement tried{what, 0, best.sqnr, best.sqnr, false};
      State next = best;
      ASSIGN_OR_RETURN(tried.places, Change(what, next));
      if (tried.places > 0) {
        RETURN_IF_ERROR(Measure(next));
        tried.with = next.sqnr;
        tried.kept = next.sqnr > best.sqnr;
        if (tried.kept) best = std::move(next);
      }
      out.tried.push_back(tried);
    }
    model = std::move(best.model);
    out.ranges = std::move(best.ranges);
    return out;
  }

 private:
  StatusOr<ValueRanges> Calibrated(const Model& model, const std::vector<RangeWanted>& wanted,
                                   const RangeOptions& range) {
    Model runnable = model;
    RETURN_IF_ERROR(WithContext(ExpandOperators(runnable), path_));
    ASSIGN_OR_RETURN(const Calibration calibration, Calibrate(runnable, wanted, samples_, range, progress_));
    return calibration.Ranges(options_.non_finite);
  }

  StatusOr<ValueRanges> RangesOf(const Model& model) {
    return Calibrated(model, RangesWanted(model, integers_), range_);
  }

  Status Measure(State& state) {
    state.quantized = state.model;
    QuantizePlan weights = weights_;
    RETURN_IF_ERROR(ApplyIntegers(state.quantized, options_, weights, integers_, state.ranges).status());
    ASSIGN_OR_RETURN(const DiffReport diff, trials_->RunModel(state.quantized));
    state.sqnr = WorstOf(diff);
    return OkStatus();
  }

  // How many places it changed.
  StatusOr<int> Change(const Improvement& what, State& state) {
    if (what.kind == Kind::kCorrectBias) return CorrectBias(state);
    int places = 0;
    if (what.kind == Kind::kEqualize) {
      ASSIGN_OR_RETURN(places, EqualizeWeights(state.model));
    } else {
      const std::vector<RangeWanted> wanted = ChannelsWanted(state.model);
      if (wanted.empty()) return 0;
      RangeOptions extremes;
      extremes.method = RangeMethod::kMinMax;
      ASSIGN_OR_RETURN(const ValueRanges reach, Calibrated(state.model, wanted, extremes));
      ASSIGN_OR_RETURN(places, BalanceActivations(state.model, reach, what.alpha));
    }
    if (places > 0) {
      ASSIGN_OR_RETURN(state.ranges, RangesOf(state.model));
    }
    return places;
  }

  // Ranges stay: what is corrected is what the quantized model makes, and it is to make what the float one does.
  StatusOr<int> CorrectBias(State& state) {
    Model runnable = state.model;
    RETURN_IF_ERROR(WithContext(ExpandOperators(runnable), path_));
    ASSIGN_OR_RETURN(const ChannelMeans means,
                     MeasureChannelMeans(runnable, MeansWanted(state.model, integers_), samples_, progress_));
    return CorrectBiases(state.model, state.quantized, integers_, means);
  }

  const std::string& path_;
  const QuantizePlan& weights_;
  const IntegerPlan& integers_;
  QuantizeOptions options_;
  SampleSource& samples_;
  const std::unique_ptr<SampleSource> measured_;
  const RangeOptions& range_;
  const std::function<void(int64_t, int64_t)>& progress_;
  std::unique_ptr<Trials> trials_;
};

}  // namespace

StatusOr<Improved> ImproveIntegers(const std::string& path, Model& model, const QuantizePlan& weights,
                                   const IntegerPlan& integers, const QuantizeOptions& options, SampleSource& samples,
                                   const RangeOptions& range, const std::function<void(int64_t, int64_t)>& progress) {
  return Improver(path, weights, integers, options, samples, range, progress).Run(model);
}

}  // namespace quant
