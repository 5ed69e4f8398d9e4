// Looks a model over: is it sound, and what in it would trouble a runtime, a device or the other tools? Every weight is
// read once, in pieces, on all threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/target.h"
#include "libquant/ir/graph.h"
#include "libquant/lint/finding.h"

namespace quant {

struct LintOptions {
  Target target;
  // For the advice: "nibble fixshape FILE".
  std::string file = "MODEL";
  std::function<void(int64_t done, int64_t total)> progress;  // bytes of constants, from any thread
};

// The findings, errors first, kinds in their order. `model` is as read (ReadModel); its shapes are inferred here. A
// failed Status is about the files: they can't be read any more.
StatusOr<std::vector<Finding>> Lint(Model& model, const LintOptions& options);

// Of these, what concerns quantizers and the target alone, without reading any weight: kinds target.quantizer (an
// error) and target.unfused. Types must have been inferred.
std::vector<Finding> LintQuantizers(const Model& model, const Target& target);

}  // namespace quant
