// What `quantize` did or would do, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/config/quantize_options.h"
#include "libquant/model/write.h"
#include "libquant/report/gate.h"
#include "passes/quant/weight_quant.h"
#include "libquant/report/json.h"

namespace quant {

struct QuantizeReport {
  std::string model;
  std::optional<std::string> output;
  QuantizeOptions options;
  QuantizePlan plan;
  int64_t source_bytes = 0;
  int64_t opset_before = 0;
  int64_t opset_after = 0;             // 0: nothing was applied
  std::optional<WriteResult> written;  // none with --plan
  int64_t estimated_bytes = 0;         // of all files, told from sizes before writing
  std::vector<GateVerdict> gates;

  double SizeRatio() const;
  // Every weight with its verdict, a line of totals, warnings.
  std::string Text() const;
  std::string GateText() const;
  Json ToJson() const;
};

// Source bytes less the float weights and plus what replaces them.
int64_t EstimateBytes(const Model& model, const QuantizePlan& plan, Keep keep);

std::string_view NameOf(Granularity granularity);
std::string_view NameOf(Scheme scheme);
std::string_view NameOf(Emit emit);

}  // namespace quant
