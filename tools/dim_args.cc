#include "tools/dim_args.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace quant {
namespace {

// A whole number, all of the text.
std::optional<int64_t> Number(std::string_view text) {
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace

StatusOr<std::pair<std::string, std::string>> SplitAtEquals(const std::string& option, const std::string& text,
                                                            std::string_view form) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return UsageError("{} {}: it has the form {}", option, text, form);
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

StatusOr<DimRequest::Named> ParseDim(const std::string& text) {
  ASSIGN_OR_RETURN(auto parts, SplitAtEquals("--dim", text, "NAME=N"));
  const auto number = Number(parts.second);
  if (!number) return UsageError("--dim {}: '{}' is no whole number that fits 64 bits", text, parts.second);
  return DimRequest::Named{parts.first, *number};
}

StatusOr<DimRequest::Input> ParseInput(const std::string& text) {
  ASSIGN_OR_RETURN(auto parts, SplitAtEquals("--input", text, "NAME=1x3x224x224"));
  DimRequest::Input out = {parts.first, {}};
  if (parts.second == "scalar") return out;
  for (size_t begin = 0; begin <= parts.second.size();) {
    const size_t end = std::min(parts.second.find('x', begin), parts.second.size());
    const std::string word = parts.second.substr(begin, end - begin);
    const auto number = Number(word);
    if (!number && word != "?") {
      return UsageError(
          "--input {}: '{}' is no dimension; a shape has the form 1x3x224x224, with ? for one to leave as "
          "it is, or is the word scalar",
          text, word);
    }
    out.dims.push_back(number);
    begin = end + 1;
  }
  return out;
}

}  // namespace quant
