#include "passes/shape/shape_values.h"

#include <algorithm>

#include "passes/match.h"

namespace quant {
namespace {

constexpr size_t kMostElements = 256;
constexpr int kDeepest = 200;  // nodes from a value back to where its numbers come from

using Element = std::optional<DimExpr>;

bool IsWhole(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kInt32; }

// Whether a number is one of the type; arithmetic that leaves it would wrap around.
bool Fits(const Element& element, DType dtype) {
  const auto n = element ? element->number() : std::nullopt;
  return !n || dtype != DType::kInt32 || (*n >= INT32_MIN && *n <= INT32_MAX);
}

// nullopt: not known.
std::optional<bool> Equal(const DimExpr& a, const DimExpr& b) {
  if (a == b) return true;
  const auto difference = DimExpr::Difference(a, b), opposite = DimExpr::Difference(b, a);
  const bool differ = (difference && difference->AtLeast(1)) || (opposite && opposite->AtLeast(1));
  return differ ? std::optional(false) : std::nullopt;
}

Element Combine(std::string_view op, const Element& a, const Element& b) {
  if (!a || !b) return std::nullopt;
  if (op == "Add") return DimExpr::Sum(*a, *b);
  if (op == "Sub") return DimExpr::Difference(*a, *b);
  if (op == "Mul") return DimExpr::Product(*a, *b);
  if (op == "Div") return DimExpr::Quotient(*a, *b);
  const auto equal = Equal(*a, *b);
  return equal ? Element(DimExpr::Number(*equal ? 1 : 0)) : std::nullopt;
}

// Elements of a broadcast operand.
const Element& At(const ShapeValue& value, size_t i) {
  return value.elements.size() == 1 ? value.elements[0] : value.elements[i];
}

// A vector or scalar that operands broadcast to; nullopt when they don't.
std::optional<ShapeValue> Broadcast(std::initializer_list<const ShapeValue*> operands) {
  ShapeValue out = {true, std::vector<Element>(1)};
  for (const ShapeValue* o : operands) {
    if (o == nullptr) return std::nullopt;
    out.scalar = out.scalar && o->scalar;
    const size_t n = o->elements.size();
    if (n == 1 || n == out.elements.size()) continue;
    if (out.elements.size() != 1) return std::nullopt;
    out.elements.resize(n);
  }
  return out;
}

}  // namespace

std::optional<std::vector<int64_t>> ShapeValue::Numbers() const {
  std::vector<int64_t> out;
  for (const Element& e : elements) {
    const auto n = e ? e->number() : std::nullopt;
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

std::optional<size_t> ShapeValues::RankOf(ValueId value) const {
  if (value == kNoValue || !graph_.value(value).shape) return std::nullopt;
  const Value& v = graph_.value(value);
  if (graph_.is_function && !v.constant) return std::nullopt;
  if (v.constant && v.is_input) return std::nullopt;  // a caller may feed another one, of other dims
  return v.shape->size();
}

std::optional<DimExpr> ShapeValues::DimOf(ValueId value, size_t axis) const {
  const auto rank = RankOf(value);
  if (!rank || axis >= *rank) return std::nullopt;
  const Dim& d = (*graph_.value(value).shape)[axis];
  if (d.known()) return DimExpr::Number(d.value);
  if (!d.symbol.empty() && d.symbol != "?") return DimExpr::Symbol(d.symbol);
  return DimExpr::Symbol(fmt::format("\x01{}:{}", value, axis));  // no file's name
}

const ShapeValue* ShapeValues::Of(ValueId value) {
  if (value == kNoValue) return nullptr;
  auto it = memo_.find(value);
  if (it == memo_.end()) {
    Found found;
    if (depth_ < kDeepest) {
      ++depth_;
      found = Find(value);
      --depth_;
    }
    it = memo_.emplace(value, std::move(found)).first;
  }
  return it->second ? &*it->second : nullptr;
}

std::optional<ShapeValue> ShapeValues::Find(ValueId value) {
  const Value& v = graph_.value(value);
  if (!IsWhole(v.dtype) && v.dtype != DType::kBool) return std::nullopt;
  if (v.constant) return OfConstant(value);
  if (v.producer != kNoNode && v.output_index == 0) {
    Found found = FindByNode(graph_.node(v.producer));
    if (found && found->elements.size() <= kMostElements) {
      for (Element& e : found->elements) {
        if (!Fits(e, v.dtype)) e.reset();
      }
      return found;
    }
  }
  // How many there are, at least.
  const auto rank = RankOf(value);
  if (!rank || *rank > 1) return std::nullopt;
  const auto count = *rank == 0 ? DimExpr::Number(1).number() : DimOf(value, 0)->number();
  if (!count || *count > static_cast<int64_t>(kMostElements)) return std::nullopt;
  return ShapeValue{*rank == 0, std::vector<Element>(static_cast<size_t>(*count))};
}

std::optional<ShapeValue> ShapeValues::FindByNode(const Node& node) {
  if (!IsOp(node, node.op_type)) return std::nullopt;  // of another domain
  const auto& attributes = node.attributes.list();
  // In a function: what the call says.
  if (std::any_of(attributes.begin(), attributes.end(), [](const Attribute& a) { return !a.ref_name.empty(); })) {
    return std::nullopt;
  }
  const std::string& op = node.op_type;
  if (op == "Shape") return OfShape(node);
  if (op == "Size") return OfSize(node);
  if (op == "Gather") return OfGather(node);
  if (op == "Slice") return OfSlice(node);
  if (op == "Concat") return OfConcat(node);
  if (op == "Unsqueeze" || op == "Squeeze" || op == "Reshape") return OfReshaped(node);
  if (op == "Cast" || op == "Identity") return OfCast(node);
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Equal") return OfArithmetic(node);
  if (op == "Where") return OfWhere(node);
  if (op == "ReduceProd") return OfReduceProd(node);
  return std::nullopt;
}

std::optional<ShapeValue> ShapeValues::OfConstant(ValueId value) const {
  const Tensor* constant = ConstantOf(graph_, value);
  if (constant == nullptr || constant->rank() > 1 || constant->size() > static_cast<int64_t>(kMostElements)) {
    return std::nullopt;
  }
  const auto ints = IntsOf(graph_, value);
  if (!ints) return std::nullopt;
  ShapeValue out = {constant->rank() == 0, {}};
  for (int64_t n : *ints) out.elements.emplace_back(DimExpr::Number(n));
  return out;
}

std::optional<ShapeValue> ShapeValues::OfShape(const Node& node) const {
  const ValueId x = InputOf(node, 0);
  const auto known = RankOf(x);
  if (!known) return std::nullopt;
  const auto rank = static_cast<int64_t>(*known);
  const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t end = clamp(node.attributes.Int("end", rank));
  ShapeValue out;
  for (int64_t i = clamp(node.attributes.Int("start", 0)); i < end; ++i) {
    out.elements.push_back(DimOf(x, static_cast<size_t>(i)));
  }
  return out;
}

std::optional<ShapeValue> ShapeValues::OfSize(const Node& node) const {
  const ValueId x = InputOf(node, 0);
  const auto rank = RankOf(x);
  if (!rank) return std::nullopt;
  Element product = DimExpr::Number(1);
  for (size_t i = 0; i < *rank; ++i) product = Combine("Mul", product, DimOf(x, i));
  return ShapeValue{true, {product}};
}

std::optional<ShapeValue> ShapeValues::OfGather(const Node& node) {
  const ShapeValue* data = Of(InputOf(node, 0));
  const ShapeValue* indices = Of(InputOf(node, 1));
  const int64_t axis = node.attributes.Int("axis", 0);
  if (data == nullptr || data->scalar || indices == nullptr || (axis != 0 && axis != -1)) return std::nullopt;
  const auto size = static_cast<int64_t>(data->elements.size());
  ShapeValue out = {indices->scalar, {}};
  for (const Element& e : indices->elements) {
    const auto i = e ? e->number() : std::nullopt;
    if (i && (*i < -size || *i >= size)) return std::nullopt;
    out.elements.push_back(i ? data->elements[static_cast<size_t>(*i < 0 ? *i + size : *i)] : Element());
  }
  return out;
}

std::optional<ShapeValue> ShapeValues::OfSlice(const Node& node) {
  const ShapeValue* data = Of(InputOf(node, 0));
  if (data == nullptr || data->scalar) return std::nullopt;
  // One number each; the default when it is left out.
  const auto one = [&](std::string_view attribute, size_t input, int64_t otherwise) -> std::optional<int64_t> {
    if (opset_ < 10) {
      const auto ints = node.attributes.Ints(attribute, {otherwise});
      return ints.size() == 1 ? std::optional(ints[0]) : std::nullopt;
    }
    if (InputOf(node, input) == kNoValue) return otherwise;
    const ShapeValue* value = Of(InputOf(node, input));
    const auto ints = value == nullptr ? std::nullopt : value->Numbers();
    return ints && ints->size() == 1 ? std::optional((*ints)[0]) : std::nullopt;
  };
  const auto start = one("starts", 1, 0), end = one("ends", 2, INT64_MAX), axis = one("axes", 3, 0);
  const auto step = one("steps", 4, 1);
  if (!start || !end || !axis || !step || *step == 0 || *step == INT64_MIN || (*axis != 0 && *axis != -1)) {
    return std::nullopt;
  }
  const auto size = static_cast<int64_t>(data->elements.size());
  if (size == 0) return *data;
  const bool forward = *step > 0;
  const int64_t lowest = forward ? 0 : -1, highest = forward ? size : size - 1;
  const auto place = [&](int64_t i) { return std::clamp(i < 0 ? i + size : i, lowest, highest); };
  ShapeValue out;
  const int64_t stop = place(*end);
  // A step past the size is one past it: sums stay small.
  const int64_t stride = std::clamp(*step, -size - 1, size + 1);
  for (int64_t i = std::clamp<int64_t>(place(*start), 0, highest); forward ? i < stop : i > stop; i += stride) {
    if (i >= size) break;
    out.elements.push_back(data->elements[static_cast<size_t>(i)]);
  }
  return out;
}

std::optional<ShapeValue> ShapeValues::OfConcat(const Node& node) {
  const int64_t axis = node.attributes.Int("axis", opset_ < 4 ? 1 : 0);
  if (axis != 0 && axis != -1) return std::nullopt;
  ShapeValue out;
  for (ValueId v : node.inputs) {
    const ShapeValue* part = Of(v);
    if (part == nullptr || part->scalar || out.elements.size() > kMostElements) return std::nullopt;
    out.elements.insert(out.elements.end(), part->elements.begin(), part->elements.end());
  }
  return out;
}

// The same elements under rank 0 or 1.
std::optional<ShapeValue> ShapeValues::OfReshaped(const Node& node) {
  const ShapeValue* data = Of(InputOf(node, 0));
  if (data == nullptr) return std::nullopt;
  ShapeValue out = *data;
  if (node.op_type == "Squeeze") {
    if (data->elements.size() != 1) return std::nullopt;
    out.scalar = true;
    return out;
  }
  const auto shape = IntsOf(graph_, node, node.op_type == "Reshape" ? "shape" : "axes", 1);
  if (!shape || shape->size() > 1) return std::nullopt;
  if (node.op_type == "Unsqueeze" && (!data->scalar || shape->size() != 1)) return std::nullopt;
  if (shape->empty() && data->elements.size() != 1) return std::nullopt;
  out.scalar = shape->empty();
  return out;
}

std::optional<ShapeValue> ShapeValues::OfCast(const Node& node) {
  const ShapeValue* data = Of(InputOf(node, 0));
  if (data == nullptr) return std::nullopt;
  // From bool to integers and between integers a number stays what it is.
  const DType from = graph_.value(node.inputs[0]).dtype, to = graph_.value(node.outputs[0]).dtype;
  return from == to || IsWhole(to) ? Found(*data) : std::nullopt;
}

std::optional<ShapeValue> ShapeValues::OfArithmetic(const Node& node) {
  const ShapeValue *a = Of(InputOf(node, 0)), *b = Of(InputOf(node, 1));
  Found out = Broadcast({a, b});
  if (!out || opset_ < 7 || graph_.value(node.inputs[0]).dtype == DType::kBool) return std::nullopt;
  for (size_t i = 0; i < out->elements.size(); ++i) out->elements[i] = Combine(node.op_type, At(*a, i), At(*b, i));
  return out;
}

std::optional<ShapeValue> ShapeValues::OfWhere(const Node& node) {
  const ShapeValue *condition = Of(InputOf(node, 0)), *a = Of(InputOf(node, 1)), *b = Of(InputOf(node, 2));
  Found out = Broadcast({condition, a, b});
  if (!out) return std::nullopt;
  for (size_t i = 0; i < out->elements.size(); ++i) {
    const auto which = At(*condition, i) ? At(*condition, i)->number() : std::nullopt;
    const bool same = At(*a, i) && At(*b, i) && *At(*a, i) == *At(*b, i);
    if (which || same) out->elements[i] = same || *which != 0 ? At(*a, i) : At(*b, i);
  }
  return out;
}

// Of all elements.
std::optional<ShapeValue> ShapeValues::OfReduceProd(const Node& node) {
  const ShapeValue* data = Of(InputOf(node, 0));
  const auto axes = IntsOf(graph_, node, "axes", 1);
  if (data == nullptr || data->scalar || !axes) return std::nullopt;
  if (axes->empty() ? node.attributes.Int("noop_with_empty_axes", 0) != 0 : axes->size() != 1) return std::nullopt;
  Element product = DimExpr::Number(1);
  for (const Element& e : data->elements) product = Combine("Mul", product, e);
  return ShapeValue{node.attributes.Int("keepdims", 1) == 0, {product}};
}

}  // namespace quant
