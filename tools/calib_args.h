// How ranges of activations are chosen: --method, --percentile, --momentum, --clamp-non-finite.
#pragma once

#include <optional>
#include <string>

#include "libquant/base/status.h"
#include "libquant/calib/range_method.h"
#include "libquant/numerics/quantize.h"
#include "tools/args.h"

namespace quant {

class MethodArgs {
 public:
  // `prefix`: before the options' names, where the tool has others of that kind ("calib-"). Without `clamp` there is no
  // --clamp-non-finite: the tool has one of its own.
  void Declare(Args& args, const std::string& prefix = "", bool clamp = true);
  bool given(const Args& args) const;
  // UsageError for a value out of range or without effect.
  StatusOr<RangeOptions> Options(const Args& args) const;
  NonFinite non_finite() const { return clamp_ ? NonFinite::kClamp : NonFinite::kError; }

 private:
  std::string prefix_;
  std::string method_;  // empty: the default
  std::optional<double> percentile_, momentum_;
  bool clamp_ = false;
};

}  // namespace quant
