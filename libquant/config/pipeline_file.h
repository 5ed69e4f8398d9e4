// The file of a pipeline (passes/pipeline.h): keys `about`, one sentence, and `passes`, a list of names.
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

// The names, which are not looked up. UsageError with line and column; `name` is the file's in messages.
StatusOr<std::vector<std::string>> ReadPipelineText(const std::string& text, const std::string& name);

}  // namespace quant
