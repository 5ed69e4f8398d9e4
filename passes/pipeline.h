// Pipelines: lists of passes by name, as files in configs/pipelines.
//
//   about: cleanup, then fusions
//   passes: [eliminate-identity, fold-constants]
//   extends: NAME    # another pipeline, whose passes go before
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "passes/pass.h"

namespace quant {

// UsageError naming the passes there are.
StatusOr<std::vector<const Pass*>> PassesNamed(const std::vector<std::string>& names);

// A built-in pipeline by its name, or a file when `name` ends in .yaml. UsageError with the place for what is wrong.
StatusOr<std::vector<const Pass*>> ReadPipeline(const std::string& name);
std::vector<std::string> PipelineNames();

}  // namespace quant
