#include "tools/calib_args.h"

namespace quant {

void MethodArgs::Declare(Args& args, const std::string& prefix, bool clamp) {
  prefix_ = "--" + prefix;
  args.Choice(
      prefix_ + "method", RangeMethodNames(), &method_,
      "how a range is chosen: the extremes (minmax, the default), their moving average over samples, a percentile, "
      "or the range with the least divergence (entropy) or squared error (mse)");
  args.Value(prefix_ + "percentile", "P", &percentile_,
             "part of the elements that lies within, in per cent; default 99.99");
  args.Value(prefix_ + "momentum", "M", &momentum_, "of the moving average, 0 to 1; default 0.99");
  if (clamp) args.Flag("--clamp-non-finite", &clamp_, "pass over NaN and infinities, instead of failing");
}

bool MethodArgs::given(const Args& args) const {
  return args.Given(prefix_ + "method") || percentile_ || momentum_ || clamp_;
}

StatusOr<RangeOptions> MethodArgs::Options(const Args&) const {
  RangeOptions options;
  if (!method_.empty()) {
    ASSIGN_OR_RETURN(options.method, RangeMethodOf(method_));
  }
  if (percentile_) {
    if (options.method != RangeMethod::kPercentile) {
      return UsageError("{}percentile has no effect without {}method percentile", prefix_, prefix_);
    }
    if (!(*percentile_ > 0 && *percentile_ <= 100))
      return UsageError("{}percentile takes more than 0 and up to 100", prefix_);
    options.percentile = *percentile_;
  }
  if (momentum_) {
    if (options.method != RangeMethod::kMovingAverage) {
      return UsageError("{}momentum has no effect without {}method moving-average", prefix_, prefix_);
    }
    if (!(*momentum_ >= 0 && *momentum_ < 1)) return UsageError("{}momentum takes 0 and more, less than 1", prefix_);
    options.momentum = *momentum_;
  }
  return options;
}

}  // namespace quant
