// The file of a pipeline (passes/pipeline.h): keys `about`, one sentence, `passes`, a list of names, and `extends`, the
// name of a pipeline whose passes go before them.
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

struct PipelineFile {
  std::string extends;  // may be empty
  std::vector<std::string> passes;
};

// Names are not looked up. UsageError with line and column; `name` is the file's in messages.
StatusOr<PipelineFile> ReadPipelineText(const std::string& text, const std::string& name);

}  // namespace quant
