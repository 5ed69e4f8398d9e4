#include "libquant/plan/kv_cache.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "libquant/base/checked.h"

namespace quant {
namespace {

// Where an operator has a cache: input, output, axis of its length from the end.
struct Slot {
  std::string_view domain, op_type;
  size_t past, present;
  size_t from_end;
};
constexpr Slot kSlots[] = {
    {"", "Attention", 4, 1, 2},
    {"", "Attention", 5, 2, 2},
    {"com.microsoft", "Attention", 4, 1, 2},
    {"com.microsoft", "GroupQueryAttention", 3, 1, 2},
    {"com.microsoft", "GroupQueryAttention", 4, 2, 2},
    {"com.microsoft", "MultiHeadAttention", 6, 1, 2},
    {"com.microsoft", "MultiHeadAttention", 7, 2, 2},
    {"com.microsoft", "DecoderMaskedMultiHeadAttention", 5, 1, 2},
    {"com.microsoft", "DecoderMaskedMultiHeadAttention", 6, 2, 2},
};

bool IsMain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// A name without what tells the past from the present: "past_key_values.0.key" and "present.0.key" become ".0.key".
std::string NeutralName(const std::string& name, bool& is_past, bool& is_present) {
  std::string out = name;
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* word : {"past_key_values", "past_key_value", "past", "present_key_values", "present"}) {
    const size_t at = out.find(word);
    if (at == std::string::npos) continue;
    (word[1] == 'a' ? is_past : is_present) = true;
    return out.erase(at, std::string_view(word).size());
  }
  return out;
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {
    for (ValueId v : graph.main().outputs) outputs_.insert(v);
  }

  std::vector<CacheTensor> Run() {
    for (NodeId n : graph_.main().nodes) FromNode(graph_.node(n));
    FromNames();
    std::stable_sort(found_.begin(), found_.end(),
                     [&](const CacheTensor& a, const CacheTensor& b) { return Place(a) < Place(b); });
    return std::move(found_);
  }

 private:
  size_t Place(const CacheTensor& c) const {
    const auto& inputs = graph_.main().inputs;
    const auto& outputs = graph_.main().outputs;
    if (c.past != kNoValue) {
      return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), c.past) - inputs.begin());
    }
    return inputs.size() + static_cast<size_t>(std::find(outputs.begin(), outputs.end(), c.present) - outputs.begin());
  }

  // The graph input that a value is, seen through Identity and Cast.
  ValueId InputBehind(ValueId v) const {
    while (v != kNoValue) {
      const Value& value = graph_.value(v);
      if (value.producer == kNoNode)
        return value.is_input && !value.constant && value.region == kMainRegion ? v : kNoValue;
      const Node& node = graph_.node(value.producer);
      if (!IsMain(node.domain) || (node.op_type != "Identity" && node.op_type != "Cast")) return kNoValue;
      v = node.inputs[0];
    }
    return kNoValue;
  }

  // The graph output that a value becomes, seen through the same.
  ValueId OutputAhead(ValueId v) const {
    if (v == kNoValue || outputs_.count(v) > 0) return v;
    for (const Use& use : graph_.value(v).uses) {
      if (use.node == kNoNode) continue;
      const Node& node = graph_.node(use.node);
      if (!IsMain(node.domain) || (node.op_type != "Identity" && node.op_type != "Cast")) continue;
      if (const ValueId out = OutputAhead(node.outputs[0]); out != kNoValue) return out;
    }
    return kNoValue;
  }

  static ValueId At(const std::vector<ValueId>& list, size_t i) { return i < list.size() ? list[i] : kNoValue; }

  void FromNode(const Node& node) {
    for (const Slot& slot : kSlots) {
      if (node.op_type != slot.op_type || (slot.domain.empty() ? !IsMain(node.domain) : node.domain != slot.domain)) {
        continue;
      }
      const ValueId present = OutputAhead(At(node.outputs, slot.present));
      Add(InputBehind(At(node.inputs, slot.past)), present, -static_cast<int64_t>(slot.from_end));
    }
    if (!IsMain(node.domain) || node.inputs.empty() || node.outputs.empty()) return;
    const ValueId past = InputBehind(node.inputs[0]), present = OutputAhead(node.outputs[0]);
    if (past == kNoValue || present == kNoValue) return;
    if (node.op_type == "TensorScatter") Add(past, present, AttributeOr(node, "axis", -2));
    if (node.op_type == "Concat") Add(past, present, AttributeOr(node, "axis", 0));
  }

  static int64_t AttributeOr(const Node& node, const char* name, int64_t otherwise) {
    const Attribute* attribute = node.attributes.Find(name);
    const int64_t* number = attribute == nullptr ? nullptr : std::get_if<int64_t>(&attribute->value);
    return number == nullptr ? otherwise : *number;
  }

  void FromNames() {
    std::map<std::string, ValueId> presents;
    for (ValueId v : graph_.main().outputs) {
      bool is_past = false, is_present = false;
      const std::string name = NeutralName(graph_.value(v).name, is_past, is_present);
      if (is_present) presents[name] = v;
    }
    for (ValueId v : graph_.main().inputs) {
      bool is_past = false, is_present = false;
      const std::string name = NeutralName(graph_.value(v).name, is_past, is_present);
      const auto it = presents.find(name);
      if (is_past && it != presents.end() && !graph_.value(v).constant) Add(v, it->second, 0, true);
    }
  }

  // Axis `axis` counts from the end when negative; by names it is where the two differ, else the last but one.
  void Add(ValueId past, ValueId present, int64_t axis, bool by_name = false) {
    if (past == kNoValue && present == kNoValue) return;
    const bool known = std::any_of(found_.begin(), found_.end(), [&](const CacheTensor& c) {
      return (past != kNoValue && c.past == past) || (present != kNoValue && c.present == present);
    });
    if (known) return;
    CacheTensor c;
    c.past = past;
    c.present = present;
    const Value& sure = graph_.value(past == kNoValue ? present : past);
    c.dtype = sure.dtype;
    const Shape* before = past == kNoValue || !graph_.value(past).shape ? nullptr : &*graph_.value(past).shape;
    const Shape* after = present == kNoValue || !graph_.value(present).shape ? nullptr : &*graph_.value(present).shape;
    if (before == nullptr && after == nullptr) return;
    c.shape = after != nullptr ? *after : *before;
    const auto rank = static_cast<int64_t>(c.shape.size());
    if (rank < 3 || InfoOf(c.dtype).bits == 0) return;
    if (before != nullptr && before->size() != c.shape.size()) return;
    if (by_name) axis = DifferentAxis(before, after, rank - 2);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return;
    c.length_axis = static_cast<size_t>(axis);
    // What inference lost of the present the past still knows.
    for (size_t i = 0; before != nullptr && i < c.shape.size(); ++i) {
      if (i != c.length_axis && !c.shape[i].known()) c.shape[i] = (*before)[i];
    }
    c.grows = before == nullptr || after == nullptr || !((*before)[c.length_axis] == (*after)[c.length_axis]);
    found_.push_back(std::move(c));
  }

  static int64_t DifferentAxis(const Shape* before, const Shape* after, int64_t otherwise) {
    for (size_t i = 0; before != nullptr && after != nullptr && i < before->size(); ++i) {
      if (!((*before)[i] == (*after)[i])) return static_cast<int64_t>(i);
    }
    return otherwise;
  }

  const Graph& graph_;
  std::set<ValueId> outputs_;
  std::vector<CacheTensor> found_;
};

}  // namespace

std::vector<CacheTensor> FindCaches(const Graph& graph) { return Finder(graph).Run(); }

StatusOr<CacheSize> MeasureCaches(const std::vector<CacheTensor>& caches, const CacheOptions& options) {
  const auto too_large = [] { return UsageError("KV cache: more bytes than 64 bits can count"); };
  CacheSize out;
  for (const CacheTensor& c : caches) {
    const auto number_of = [&](size_t axis) {
      const Dim& d = c.shape[axis];
      if (axis == c.length_axis && options.length && (c.grows || !d.known())) return *options.length;
      const std::string name = d.symbol.empty() ? "?" : d.symbol;
      const bool noted = d.known() || std::find(out.opened.begin(), out.opened.end(), name) != out.opened.end();
      if (!noted) out.opened.push_back(name);
      return d.known() ? d.value : 1;
    };
    Dims dims;
    for (size_t i = 0; i < c.shape.size(); ++i) dims.push_back(number_of(i));
    const int64_t length = std::exchange(dims[c.length_axis], 1);
    const int64_t bits = options.bits.value_or(options.half && c.dtype == DType::kFloat ? 16 : InfoOf(c.dtype).bits);
    const auto elements = CheckedProduct(dims);
    const auto token_bits = elements ? CheckedMul(*elements, bits) : std::nullopt;
    if (!token_bits) return too_large();
    const int64_t token = CeilDiv(*token_bits, 8);
    const auto bytes = CheckedMul(token, length);
    const auto sum = bytes ? CheckedAdd(out.bytes, *bytes) : std::nullopt;
    const auto tokens = CheckedAdd(out.bytes_per_token, token);
    if (!sum || !tokens) return too_large();
    out.bytes = *sum;
    out.bytes_per_token = *tokens;
    out.length = std::max(out.length, length);
  }
  return out;
}

}  // namespace quant
