#include "passes/shape/fix_input.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "libquant/base/checked.h"
#include "passes/match.h"

namespace quant {
namespace {

template <typename T>
std::optional<Tensor> Parsed(const std::string& text, Dims dims) {
  T number = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return Tensor::Of<T>(std::move(dims), std::span<const T>(&number, 1));
}

std::optional<Tensor> ParsedBool(const std::string& text, Dims dims) {
  const bool value = text == "true" || text == "1";
  if (!value && text != "false" && text != "0") return std::nullopt;
  return Tensor::Of<bool>(std::move(dims), std::span<const bool>(&value, 1));
}

std::optional<Tensor> Parsed(DType dtype, const std::string& text, Dims dims) {
  switch (dtype) {
    case DType::kBool:
      return ParsedBool(text, std::move(dims));
    case DType::kInt64:
      return Parsed<int64_t>(text, std::move(dims));
    case DType::kInt32:
      return Parsed<int32_t>(text, std::move(dims));
    case DType::kFloat:
      return Parsed<float>(text, std::move(dims));
    case DType::kDouble:
      return Parsed<double>(text, std::move(dims));
    default:
      return std::nullopt;
  }
}

}  // namespace

Status FixInput(Graph& graph, const std::string& name, const std::string& number) {
  auto& inputs = graph.main().inputs;
  const auto it = std::find_if(inputs.begin(), inputs.end(), [&](ValueId v) { return graph.value(v).name == name; });
  if (it == inputs.end()) return UsageError("there is no input '{}' to give a value", name);
  const ValueId input = *it;
  const Value& value = graph.value(input);
  if (value.is_initializer) return UsageError("input '{}' is a weight of the model", name);
  if (IsRegionOutput(graph, input)) return UsageError("input '{}' is an output too and can't become a constant", name);
  const auto dims = value.shape ? StaticDims(*value.shape) : std::nullopt;
  if (!dims || CheckedProduct(*dims) != 1) {
    return UsageError("input '{}' is {}: only an input of one element can become a constant", name,
                      value.shape ? ToString(*value.shape) : "of unknown rank");
  }
  const auto tensor = Parsed(value.dtype, number, *dims);
  if (!tensor) return UsageError("input '{}' is {} and can't be '{}'", name, NameOf(value.dtype), number);
  inputs.erase(it);
  const ValueId constant = graph.AddConstant(name, *tensor, kMainRegion);
  graph.ReplaceUses(input, constant);
  std::swap(graph.value(input).name, graph.value(constant).name);
  graph.value(input).removed = true;
  return OkStatus();
}

}  // namespace quant
