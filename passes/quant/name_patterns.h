// The user's RE2 patterns on names, each of which must match something.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"

namespace re2 {
class RE2;
}

namespace quant {

class NamePatterns {
 public:
  // `option` is how the user gave them ("--skip"), for messages. UsageError when one does not compile.
  static StatusOr<NamePatterns> Compile(std::string option, const std::vector<std::string>& patterns);
  NamePatterns(NamePatterns&&) noexcept;
  NamePatterns& operator=(NamePatterns&&) noexcept;
  ~NamePatterns();

  bool empty() const { return patterns_.empty(); }
  // The first pattern found anywhere in one of the names, marked as used; null when none is.
  const std::string* Match(const std::vector<std::string_view>& names);
  // True when a pattern is one of the names letter for letter, not by a wider match.
  bool NamesExactly(const std::vector<std::string_view>& names) const;
  // UsageError naming the first pattern that never matched "no `what`"; `examples` are names of `kind` that the user
  // could have meant.
  Status CheckAllMatched(std::string_view what, std::string_view kind, const std::vector<std::string>& examples) const;

 private:
  NamePatterns();
  struct Pattern {
    std::string text;
    std::unique_ptr<re2::RE2> regex;
    bool matched = false;
  };
  std::string option_;
  std::vector<Pattern> patterns_;
};

}  // namespace quant
