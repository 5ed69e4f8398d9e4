#include "passes/quant/name_patterns.h"

#include <re2/re2.h>

#include <algorithm>

namespace quant {

NamePatterns::NamePatterns() = default;
NamePatterns::NamePatterns(NamePatterns&&) noexcept = default;
NamePatterns& NamePatterns::operator=(NamePatterns&&) noexcept = default;
NamePatterns::~NamePatterns() = default;

StatusOr<NamePatterns> NamePatterns::Compile(std::string option, const std::vector<std::string>& patterns) {
  NamePatterns out;
  out.option_ = std::move(option);
  for (const std::string& text : patterns) {
    auto regex = std::make_unique<re2::RE2>(text, re2::RE2::Quiet);
    if (!regex->ok()) return UsageError("{} '{}' is no regular expression: {}", out.option_, text, regex->error());
    out.patterns_.push_back({text, std::move(regex), false});
  }
  return out;
}

const std::string* NamePatterns::Match(const std::vector<std::string_view>& names) {
  const std::string* first = nullptr;
  for (Pattern& p : patterns_) {
    for (std::string_view name : names) {
      if (name.empty() || !re2::RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), *p.regex)) continue;
      p.matched = true;
      if (first == nullptr) first = &p.text;
      break;
    }
  }
  return first;
}

bool NamePatterns::NamesExactly(const std::vector<std::string_view>& names) const {
  for (const Pattern& p : patterns_) {
    std::string_view text = p.text;
    if (text.size() > 1 && text.front() == '^' && text.back() == '$') text = text.substr(1, text.size() - 2);
    for (std::string_view name : names) {
      const bool exact = text == name || text == re2::RE2::QuoteMeta(re2::StringPiece(name.data(), name.size()));
      if (!name.empty() && exact) return true;
    }
  }
  return false;
}

Status NamePatterns::CheckAllMatched(std::string_view what, std::string_view kind,
                                     const std::vector<std::string>& examples) const {
  for (const Pattern& p : patterns_) {
    if (p.matched) continue;
    std::string hint;
    for (size_t i = 0; i < std::min<size_t>(3, examples.size()); ++i) hint += (i ? ", " : "") + examples[i];
    return UsageError("{} '{}' matches no {}; there are {} {}, such as {}", option_, p.text, what, examples.size(),
                      kind, hint.empty() ? "none" : hint);
  }
  return OkStatus();
}

}  // namespace quant
