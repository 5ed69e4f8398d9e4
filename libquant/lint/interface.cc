#include <algorithm>
#include <set>

#include "libquant/base/byte_text.h"
#include "libquant/lint/rules.h"
#include "libquant/model/dim_names.h"

namespace quant {
namespace {

constexpr int64_t kGoodOpset = 17;

std::string DomainName(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

void LintOpsets(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  const int64_t opset = model.OpsetOf("");
  const Target& target = options.target;
  if (opset > 0 && (opset < target.min_opset || opset > target.max_opset)) {
    Finding f = Finding::Of(FindingId::kTargetOpset, fmt::format("opset {}; {} reads {} to {}", opset, target.name,
                                                                 target.min_opset, target.max_opset));
    f.next = fmt::format("export with opset {}", opset < target.min_opset ? target.min_opset : target.max_opset);
    out.push_back(std::move(f));
  } else if (opset > 0 && opset < kGoodOpset) {
    out.push_back(Finding::Of(FindingId::kOpsetOld, fmt::format("opset {}", opset)));
  }
  std::set<std::string> used;
  for (const PlacedNode& placed : NodesEverywhere(model)) used.insert(DomainName(placed.node().domain));
  std::vector<std::string> unused;
  for (const OpsetImport& import : model.opsets) {
    const std::string name = DomainName(import.domain);
    if (name != "ai.onnx" && !used.contains(name)) unused.push_back(fmt::format("{} {}", name, import.version));
  }
  if (unused.empty()) return;
  out.push_back(
      Finding::Of(FindingId::kOpsetUnused, Count(unused.size(), "opset") + " imported, used by no node", unused));
}

// "x: batch x 3 x ?".
std::string InputText(const Value& value) {
  if (!value.shape) return value.name + ": unknown rank";
  Shape shape = *value.shape;
  for (Dim& d : shape) {
    if (!HasMeaningfulName(d)) d.symbol.clear();
  }
  return value.name + ": " + ToString(shape);
}

bool IsOpen(const Value& value) { return !value.shape || !StaticDims(*value.shape); }

// Quoted for a shell where it holds more than letters.
std::string Quoted(const std::string& word) {
  const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '=' || c == '-' ||
           c == '/' || c == ':';
  });
  if (plain) return word;
  std::string out = "'";
  for (char c : word) {
    if (c == '\'') out += "'\\'";
    out += c;
  }
  out += '\'';
  return out;
}

// A name that --dim can set; computed dimensions ("past + tokens") follow from others.
bool IsPlainName(const Dim& d) {
  return HasMeaningfulName(d) && d.symbol.find_first_of(" +*/()-") == std::string::npos;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// A size to start from: 1 for what is called a batch.
std::string_view SizeFor(const Dim& d) { return Lower(d.symbol).find("batch") == std::string::npos ? "N" : "1"; }

// The options that fix what is open: --dim for names, --input for inputs with a dimension that has none.
std::string FixingOptions(const std::vector<const Value*>& inputs) {
  std::vector<std::string> options;
  const auto add = [&](std::string option) {
    if (std::find(options.begin(), options.end(), option) == options.end()) options.push_back(std::move(option));
  };
  for (const Value* value : inputs) {
    const Shape shape = value->shape.value_or(Shape{});
    const bool named = value->shape && std::all_of(shape.begin(), shape.end(),
                                                   [](const Dim& d) { return d.known() || IsPlainName(d); });
    if (!named) {
      std::string dims;
      for (const Dim& d : shape) {
        const std::string size = d.known() ? fmt::format("{}", d.value) : std::string(SizeFor(d));
        dims += fmt::format("{}{}", dims.empty() ? "" : "x", size);
      }
      add("--input " + Quoted(fmt::format("{}={}", value->name, value->shape ? dims : "DIMS")));
      continue;
    }
    for (const Dim& d : shape) {
      if (!d.known()) add("--dim " + Quoted(fmt::format("{}={}", d.symbol, SizeFor(d))));
    }
  }
  return fmt::format("{}", fmt::join(options, " "));
}

void LintDimensions(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  const Graph& graph = model.graph;
  std::vector<const Value*> open;
  std::vector<std::string> where;
  for (ValueId v : graph.main().inputs) {
    const Value& value = graph.value(v);
    // Lists and optionals have no dimensions to fix.
    if (value.is_initializer || value.dtype == DType::kUndefined || !IsOpen(value)) continue;
    open.push_back(&value);
    where.push_back(InputText(value));
  }
  const bool fixed_only = !options.target.dynamic_shapes;
  if (!open.empty()) {
    std::string what = Count(open.size(), "input") + " with open dimensions";
    if (fixed_only) what += fmt::format("; {} wants fixed ones", options.target.name);
    Finding f = Finding::Of(fixed_only ? FindingId::kTargetDynamic : FindingId::kInputDynamic, what, where);
    const std::string command =
        fmt::format("`nibble fixshape {} -o fixed.onnx {}`", Quoted(options.file), FixingOptions(open));
    f.next = fixed_only ? command + ", with your sizes" : "for a device of fixed shapes: " + command;
    out.push_back(std::move(f));
    return;
  }
  if (!fixed_only) return;
  std::vector<std::string> inside;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.removed || value.producer == kNoNode || value.uses.empty() || value.dtype == DType::kUndefined) continue;
    if (IsOpen(value)) inside.push_back(InputText(value));
  }
  if (inside.empty()) return;
  out.push_back(Finding::Of(FindingId::kTargetDynamicInside,
                            Count(inside.size(), "value") + " with open dimensions; first made are listed", inside));
}

void LintUse(const Model& model, std::vector<Finding>& out) {
  const Graph& graph = model.graph;
  std::vector<std::string> inputs, constants, overridable;
  int64_t bytes = 0;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.removed) continue;
    const bool main_input = value.is_input && value.region == kMainRegion;
    if (main_input && !value.is_initializer && value.uses.empty()) inputs.push_back(value.name);
    if (value.constant && value.uses.empty()) {
      constants.push_back(value.name);
      bytes += value.constant->byte_size();
    }
    if (main_input && value.is_initializer && model.ir_version >= 4) overridable.push_back(value.name);
  }
  if (!inputs.empty()) {
    out.push_back(Finding::Of(FindingId::kInputUnused, Count(inputs.size(), "input") + " that nothing reads", inputs));
  }
  if (!constants.empty()) {
    const std::string size = fmt::format(", {}", Bytes(bytes));
    out.push_back(Finding::Of(FindingId::kInitializerUnused,
                              Count(constants.size(), "constant") + " that nothing reads" + size, constants));
  }
  if (!overridable.empty()) {
    out.push_back(Finding::Of(FindingId::kInitializerIsInput,
                              fmt::format("{} listed as inputs too", Count(overridable.size(), "initializer")),
                              overridable));
  }
}

// Names of the values whose type satisfies `is`.
template <typename Is>
std::vector<std::string> ValuesOf(const Graph& graph, const Is& is) {
  std::vector<std::string> out;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (!value.removed && is(value.constant ? value.constant->dtype() : value.dtype)) out.push_back(value.name);
  }
  return out;
}

void LintTypes(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  const auto add = [&](FindingId finding, std::string_view type, const auto& is) {
    const std::vector<std::string> names = ValuesOf(model.graph, is);
    if (!names.empty()) {
      out.push_back(Finding::Of(finding, fmt::format("{} of {}", Count(names.size(), "value"), type), names));
    }
  };
  add(FindingId::kTypeDouble, "float64", [](DType t) { return t == DType::kDouble; });
  if (!options.target.float16) add(FindingId::kTargetFloat16, "float16", [](DType t) { return t == DType::kFloat16; });
  if (!options.target.int4) {
    add(FindingId::kTargetInt4, "4 bits", [](DType t) { return t == DType::kInt4 || t == DType::kUint4; });
  }
}

}  // namespace

void LintInterface(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  LintOpsets(model, options, out);
  LintDimensions(model, options, out);
  LintUse(model, out);
  LintTypes(model, options, out);
}

}  // namespace quant
