#include "passes/shape/dim_name.h"

#include <cctype>
#include <charconv>

#include "libquant/base/checked.h"

namespace quant {
namespace {

constexpr int kDeepest = 64;  // parentheses

// One walk both finds the parts and computes: what has an unknown part has no number, which is no fault.
class Reader {
 public:
  using Number = std::optional<int64_t>;
  using Lookup = std::function<Number(const std::string&)>;

  Reader(std::string_view text, const Lookup* number_of) : text_(text), number_of_(number_of) {}

  // nullopt inside: not computed. Check is_arithmetic() and fault() after.
  Number Read() {
    const Number out = Sum(0);
    Skip();
    if (at_ != text_.size()) malformed_ = true;
    return out;
  }

  bool is_arithmetic() const { return !malformed_ && operators_ > 0 && !parts_.empty(); }
  const std::vector<std::string>& parts() const { return parts_; }
  const std::string& fault() const { return fault_; }

 private:
  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  // Takes the operator when it is next.
  bool Take(std::string_view op) {
    Skip();
    if (text_.substr(at_, op.size()) != op) return false;
    at_ += op.size();
    return true;
  }

  Number Sum(int depth) {
    Number left = Product(depth);
    while (!malformed_) {
      const bool plus = Take("+");
      if (!plus && !Take("-")) break;
      ++operators_;
      const Number right = Product(depth);
      left = Combine(plus ? '+' : '-', left, right);
    }
    return left;
  }

  Number Product(int depth) {
    Number left = Factor(depth);
    while (!malformed_) {
      const char op = Take("*") ? '*' : Take("//") ? '|' : Take("/") ? '/' : ' ';
      if (op == ' ') break;
      ++operators_;
      const Number right = Factor(depth);
      left = Combine(op, left, right);
    }
    return left;
  }

  Number Factor(int depth) {
    if (depth > kDeepest) malformed_ = true;
    if (malformed_) return std::nullopt;
    if (Take("(")) {
      const Number inner = Sum(depth + 1);
      if (!Take(")")) malformed_ = true;
      return inner;
    }
    Skip();
    const std::string_view word = Word();
    if (word.empty()) malformed_ = true;
    if (malformed_) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) return Integer(word);
    parts_.emplace_back(word);
    return number_of_ == nullptr ? std::nullopt : (*number_of_)(parts_.back());
  }

  std::string_view Word() {
    const size_t begin = at_;
    const auto is_part = [this](size_t i) {
      return i < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[i])) != 0 || text_[i] == '_' ||
                                  text_[i] == '.' || text_[i] == ':' || static_cast<unsigned char>(text_[i]) >= 0x80);
    };
    while (is_part(at_) || (at_ > begin && at_ < text_.size() && text_[at_] == '-' && is_part(at_ + 1))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Number Integer(std::string_view word) {
    int64_t out = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
    if (error != std::errc() || end != word.data() + word.size()) malformed_ = true;
    return malformed_ ? std::nullopt : Number(out);
  }

  Number Combine(char op, Number a, Number b) {
    if (!a || !b) return std::nullopt;
    Number out;
    int64_t negative = 0;
    if (op == '+') out = CheckedAdd(*a, *b);
    if (op == '-' && !__builtin_sub_overflow(*a, *b, &negative)) out = negative;
    if (op == '*') out = CheckedMul(*a, *b);
    if (op == '/' || op == '|') {
      if (*b == 0 || (*a == INT64_MIN && *b == -1)) return Fault("divides by zero");
      if (op == '/' && *a % *b != 0) return Fault(fmt::format("divides {} by {}, which leaves a rest", *a, *b));
      out = *a / *b - (*a % *b != 0 && (*a < 0) != (*b < 0) ? 1 : 0);
    }
    return out ? out : Fault("is too large a number");
  }

  Number Fault(std::string text) {
    if (fault_.empty()) fault_ = std::move(text);
    return std::nullopt;
  }

  std::string_view text_;
  const Lookup* number_of_;
  size_t at_ = 0;
  int operators_ = 0;
  bool malformed_ = false;
  std::vector<std::string> parts_;
  std::string fault_;
};

}  // namespace

std::vector<std::string> PartsOfDimName(std::string_view name) {
  Reader reader(name, nullptr);
  reader.Read();
  return reader.is_arithmetic() ? reader.parts() : std::vector<std::string>();
}

StatusOr<std::optional<int64_t>> ComputeDimName(
    std::string_view name, const std::function<std::optional<int64_t>(const std::string&)>& number_of) {
  Reader reader(name, &number_of);
  const std::optional<int64_t> number = reader.Read();
  if (!reader.is_arithmetic()) return std::optional<int64_t>();
  if (!reader.fault().empty()) return UsageError("dimension '{}' {}", name, reader.fault());
  return number;
}

}  // namespace quant
