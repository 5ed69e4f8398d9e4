// Numbers for a model's dimensions as words of the command line: --dim NAME=N, --input NAME=1x3x224x224.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "libquant/base/status.h"
#include "passes/shape/bind_dims.h"

namespace quant {

// NAME=WHAT, split at the last '=': names may hold one. `form` is what the error says it should look like.
StatusOr<std::pair<std::string, std::string>> SplitAtEquals(const std::string& option, const std::string& text,
                                                            std::string_view form);
StatusOr<DimRequest::Named> ParseDim(const std::string& text);
StatusOr<DimRequest::Input> ParseInput(const std::string& text);

}  // namespace quant
