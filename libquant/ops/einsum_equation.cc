#include "libquant/ops/einsum_equation.h"

#include <algorithm>
#include <set>
#include <string>

namespace quant {
namespace {

constexpr EinsumLabel kEllipsis = -1;            // before it is replaced by labels of axes
constexpr EinsumLabel kFirstEllipsisAxis = 256;  // of the last axis; more towards the front

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

StatusOr<EinsumLabels> ReadTerm(std::string_view term) {
  EinsumLabels out;
  for (size_t i = 0; i < term.size(); ++i) {
    if (IsLetter(term[i])) {
      out.push_back(term[i]);
    } else if (term.substr(i, 3) == "..." && std::find(out.begin(), out.end(), kEllipsis) == out.end()) {
      out.push_back(kEllipsis);
      i += 2;
    } else {
      return DataError("the equation's term {} is not of letters and one ellipsis", term);
    }
  }
  return out;
}

// Puts labels of `count` axes in the ellipsis' place.
EinsumLabels Expanded(const EinsumLabels& term, int64_t count) {
  EinsumLabels out;
  for (const EinsumLabel label : term) {
    if (label != kEllipsis) {
      out.push_back(label);
      continue;
    }
    for (int64_t i = count; i-- > 0;) out.push_back(kFirstEllipsisAxis + static_cast<EinsumLabel>(i));
  }
  return out;
}

bool HasEllipsis(const EinsumLabels& term) { return std::find(term.begin(), term.end(), kEllipsis) != term.end(); }

Status TakeSizes(const EinsumLabels& labels, const Dims& dims, std::map<EinsumLabel, int64_t>& sizes) {
  std::map<EinsumLabel, int64_t> own;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto [it, fresh] = own.try_emplace(labels[i], dims[i]);
    if (!fresh && it->second != dims[i])
      return DataError("a repeated letter stands for axes of {} and {}", it->second, dims[i]);
  }
  for (const auto& [label, dim] : own) {
    int64_t& size = sizes.try_emplace(label, dim).first->second;
    if (size != dim && size != 1 && dim != 1) return DataError("a letter stands for axes of {} and {}", size, dim);
    if (size == 1) size = dim;
  }
  return OkStatus();
}

EinsumLabels ImplicitOutput(const std::vector<EinsumLabels>& inputs, int64_t ellipsis_axes) {
  std::map<EinsumLabel, int> uses;
  for (const EinsumLabels& labels : inputs) {
    for (const EinsumLabel label : labels) ++uses[label];
  }
  EinsumLabels out = Expanded({kEllipsis}, ellipsis_axes);
  for (const auto& [label, count] : uses) {
    if (label < kFirstEllipsisAxis && count == 1) out.push_back(label);
  }
  return out;
}

Status CheckOutput(const EinsumEquation& e, int64_t ellipsis_axes) {
  std::set<EinsumLabel> seen;
  for (const EinsumLabel label : e.output) {
    if (!e.sizes.contains(label)) return DataError("the output has an index that no operand has");
    if (!seen.insert(label).second) return DataError("the output has an index twice");
  }
  for (int64_t i = 0; i < ellipsis_axes; ++i) {
    if (!seen.contains(kFirstEllipsisAxis + static_cast<EinsumLabel>(i)))
      return DataError("the output lacks the ellipsis");
  }
  return OkStatus();
}

}  // namespace

StatusOr<EinsumEquation> ReadEinsum(std::string_view text, const std::vector<Dims>& operands) {
  std::string equation(text);
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::string_view left = std::string_view(equation).substr(0, arrow);
  EinsumEquation out;
  int64_t ellipsis_axes = 0;
  for (const Dims& dims : operands) {
    const size_t comma = left.find(',');
    const bool last = &dims == &operands.back();
    if ((comma == std::string_view::npos) != last)
      return DataError("equation {} for {} operands", text, operands.size());
    ASSIGN_OR_RETURN(const EinsumLabels term, ReadTerm(left.substr(0, comma)));
    left = last ? std::string_view() : left.substr(comma + 1);
    const bool open = HasEllipsis(term);
    const int64_t rest = static_cast<int64_t>(dims.size()) - static_cast<int64_t>(term.size()) + (open ? 1 : 0);
    if (rest < 0 || (rest > 0 && !open)) return DataError("equation {} for an operand of {}", text, ToString(dims));
    out.inputs.push_back(Expanded(term, rest));
    ellipsis_axes = std::max(ellipsis_axes, rest);
    RETURN_IF_ERROR(TakeSizes(out.inputs.back(), dims, out.sizes));
  }
  if (arrow == std::string::npos) {
    out.output = ImplicitOutput(out.inputs, ellipsis_axes);
  } else {
    ASSIGN_OR_RETURN(const EinsumLabels term, ReadTerm(std::string_view(equation).substr(arrow + 2)));
    out.output = Expanded(term, ellipsis_axes);
  }
  RETURN_IF_ERROR(CheckOutput(out, ellipsis_axes));
  return out;
}

}  // namespace quant
