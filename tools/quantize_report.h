// What `quantize` did or would do, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/config/quantize_options.h"
#include "libquant/model/write.h"
#include "libquant/report/report.h"
#include "passes/quant/weight_quant.h"

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

  double SizeRatio() const;
  std::string Title() const;
  // Every weight with its verdict, warnings, totals, measures, data.
  void AddTo(Report& report) const;

 private:
  std::string SizeText() const;
  Json ToJson() const;
};

std::string_view NameOf(Granularity granularity);
std::string_view NameOf(Scheme scheme);
std::string_view NameOf(Emit emit);

}  // namespace quant
