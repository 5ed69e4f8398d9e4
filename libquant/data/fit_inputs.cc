#include "libquant/data/fit_inputs.h"

#include <algorithm>

namespace quant {
namespace {

std::string WantedText(const InputSpec& input) {
  if (input.dtype == DType::kUndefined) return "(a sequence or an optional: in test_data_set_* folders only)";
  return fmt::format("{}[{}]", NameOf(input.dtype), input.shape ? ToString(*input.shape) : "any rank");
}

const InputSpec* FindInput(const std::vector<InputSpec>& inputs, const std::string& name) {
  const auto it = std::find_if(inputs.begin(), inputs.end(), [&](const InputSpec& i) { return i.name == name; });
  return it == inputs.end() ? nullptr : &*it;
}

}  // namespace

bool IsLabels(const std::string& name, const std::vector<InputSpec>& inputs) {
  return (name == "label" || name == "labels") && FindInput(inputs, name) == nullptr;
}

Status FitNames(const std::string& what, const std::vector<std::string>& names, const std::vector<InputSpec>& inputs) {
  std::string found;
  bool fits = true;
  for (const std::string& name : names) {
    if (IsLabels(name, inputs)) continue;
    found += (found.empty() ? "" : ", ") + name;
    fits = fits && FindInput(inputs, name) != nullptr;
  }
  std::string wanted;
  for (const InputSpec& input : inputs) {
    wanted += (wanted.empty() ? "" : ", ") + input.name + " " + WantedText(input);
    fits = fits && std::find(names.begin(), names.end(), input.name) != names.end();
  }
  if (fits) return OkStatus();
  return DataError("{} holds {}; the model wants {}", what, found.empty() ? "no array" : found,
                   wanted.empty() ? "none" : wanted);
}

StatusOr<Fit> FitArray(const std::string& what, DType dtype, const Dims& dims, const InputSpec& input) {
  const auto misfit = [&] {
    return DataError("{} is {}[{}]; input {} wants {}", what, NameOf(dtype), ToString(dims), input.name,
                     WantedText(input));
  };
  if (input.dtype != DType::kUndefined && dtype != input.dtype) return misfit();
  if (!input.shape) return Fit::kWhole;
  const Shape& shape = *input.shape;
  if (shape.size() != dims.size()) return misfit();
  for (size_t i = 1; i < dims.size(); ++i) {
    if (shape[i].known() && shape[i].value != dims[i]) return misfit();
  }
  if (dims.empty()) return Fit::kWhole;
  if ((!shape[0].known() || shape[0].value == 1) && dims[0] > 1) return Fit::kRows;
  if (shape[0].known() && shape[0].value != dims[0]) return misfit();
  return Fit::kWhole;
}

}  // namespace quant
