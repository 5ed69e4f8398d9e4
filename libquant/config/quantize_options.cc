#include "libquant/config/quantize_options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "libquant/numerics/format.h"

namespace quant {
namespace {

StatusOr<int64_t> Integer(std::string_view key, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) {
    return UsageError("{} takes a whole number from {} to {}, not '{}'", key, least, most, text);
  }
  return value;
}

// The value that goes with the word.
template <typename T>
StatusOr<T> Choice(std::string_view key, const std::string& word, const std::vector<std::pair<std::string, T>>& words) {
  std::string list;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    list += (list.empty() ? "" : ", ") + name;
  }
  return UsageError("{} takes one of {}, not '{}'", key, list, word);
}

Status SetWeights(WeightFormat& format, const std::string& word) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const Format& f : AllFormats()) {
    if (f.bits <= 8) names.emplace_back(f.name, f.name);
  }
  ASSIGN_OR_RETURN(format.weights, Choice("weights", word, names));
  return OkStatus();
}

Status SetGroupSize(WeightFormat& format, const std::string& word) {
  if (word == "channel" || word == "tensor") {
    format.granularity = word == "channel" ? Granularity::kChannel : Granularity::kTensor;
    return OkStatus();
  }
  const auto size = Integer("group-size", word, 1, INT64_MAX);
  if (!size.ok()) return UsageError("group-size takes a positive number, channel or tensor, not '{}'", word);
  format.granularity = Granularity::kGroup;
  format.group_size = *size;
  return OkStatus();
}

Status SetScheme(WeightFormat& format, const std::string& word) {
  ASSIGN_OR_RETURN(
      format.scheme,
      Choice<Scheme>("scheme", word, {{"symmetric", Scheme::kSymmetric}, {"asymmetric", Scheme::kAsymmetric}}));
  return OkStatus();
}

Status SetScaleType(WeightFormat& format, const std::string& word) {
  ASSIGN_OR_RETURN(format.scale_type,
                   Choice<DType>("scale-type", word, {{"fp32", DType::kFloat}, {"fp16", DType::kFloat16}}));
  return OkStatus();
}

const std::vector<std::pair<std::string, Emit>>& EmitWords() {
  static const std::vector<std::pair<std::string, Emit>> words = {
      {"qdq", Emit::kQdq}, {"nbits", Emit::kNBits}, {"qoperator", Emit::kQOperator}};
  return words;
}

using Improvements = std::vector<Improvement::Kind>;
const std::vector<std::pair<std::string, Improvements>>& ImprovementWords() {
  using K = Improvement::Kind;
  static const std::vector<std::pair<std::string, Improvements>> words = {
      {"equalize", {K::kEqualize}},
      {"balance", {K::kBalance}},
      {"correct-bias", {K::kCorrectBias}},
      {"all", {K::kEqualize, K::kBalance, K::kCorrectBias}}};
  return words;
}

using FormatSetter = Status (*)(WeightFormat&, const std::string&);
const std::vector<std::pair<std::string, FormatSetter>>& FormatSetters() {
  static const std::vector<std::pair<std::string, FormatSetter>> setters = {
      {"weights", SetWeights}, {"group-size", SetGroupSize}, {"scheme", SetScheme}, {"scale-type", SetScaleType}};
  return setters;
}

using Setter = std::function<Status(QuantizeOptions&, const std::string&)>;

Setter AddTo(std::vector<std::string> QuantizeOptions::*list) {
  return [list](QuantizeOptions& o, const std::string& value) {
    (o.*list).push_back(value);
    return OkStatus();
  };
}

Status AddImprovements(QuantizeOptions& o, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  ASSIGN_OR_RETURN(const Improvements kinds, Choice("improve", name, ImprovementWords()));
  double alpha = Improvement().alpha;
  if (equals != std::string::npos) {
    if (kinds != Improvements{Improvement::Kind::kBalance}) return UsageError("improve {} takes no number", name);
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data() + equals + 1, end, alpha);
    if (error != std::errc() || stop != end || !(alpha >= 0 && alpha <= 1)) {
      return UsageError("improve balance takes a number from 0 to 1, not '{}'", word.substr(equals + 1));
    }
  }
  for (const Improvement::Kind kind : kinds) o.improve.push_back({kind, alpha});
  return OkStatus();
}

Status SetTarget(QuantizeOptions& o, const std::string& word) {
  ASSIGN_OR_RETURN(o.target, FindTarget(word));
  return OkStatus();
}

// "none", "dynamic" or a format of 8 or 16 bits.
Status SetActivations(QuantizeOptions& o, const std::string& word) {
  std::vector<std::pair<std::string, std::string>> names = {{"none", "none"}, {"dynamic", "dynamic"}};
  for (const Format& f : AllFormats()) {
    if (f.bits >= 8) names.emplace_back(f.name, f.name);
  }
  ASSIGN_OR_RETURN(o.activations, Choice("activations", word, names));
  return OkStatus();
}

// Those of the format aside.
const std::vector<std::pair<std::string, Setter>>& Setters() {
  using O = QuantizeOptions;
  using S = std::string;
  static const std::vector<std::pair<S, Setter>> setters = {
      {"emit",
       [](O& o, const S& v) -> Status {
         ASSIGN_OR_RETURN(o.emit, Choice<Emit>("emit", v, EmitWords()));
         return OkStatus();
       }},
      {"keep",
       [](O& o, const S& v) -> Status {
         ASSIGN_OR_RETURN(o.keep, Choice<Keep>("keep", v, {{"fp32", Keep::kFloat}, {"fp16", Keep::kHalf}}));
         return OkStatus();
       }},
      {"accuracy-level",
       [](O& o, const S& v) -> Status {
         ASSIGN_OR_RETURN(o.accuracy_level, Integer("accuracy-level", v, 0, 4));
         o.accuracy_level_set = true;
         return OkStatus();
       }},
      {"clamp-non-finite",
       [](O& o, const S& v) -> Status {
         ASSIGN_OR_RETURN(o.non_finite, Choice<NonFinite>("clamp-non-finite", v,
                                                          {{"true", NonFinite::kClamp}, {"false", NonFinite::kError}}));
         return OkStatus();
       }},
      {"activations", SetActivations},
      {"io",
       [](O& o, const S& v) -> Status {
         ASSIGN_OR_RETURN(o.integer_io, Choice<bool>("io", v, {{"float", false}, {"integer", true}}));
         return OkStatus();
       }},
      {"improve", AddImprovements},
      {"target", SetTarget},
      {"skip", AddTo(&O::skip)},
      {"skip-op", AddTo(&O::skip_op)},
      {"only", AddTo(&O::only)},
      {"include-op", AddTo(&O::include_op)},
      {"gate", AddTo(&O::gate)},
  };
  return setters;
}

}  // namespace

std::string Improvement::Label() const {
  for (const auto& [name, value] : ImprovementWords()) {
    if (value == Improvements{kind}) return kind == Kind::kBalance ? fmt::format("{}={}", name, alpha) : name;
  }
  return "";
}

std::string_view NameOf(Emit emit) {
  for (const auto& [name, value] : EmitWords()) {
    if (value == emit) return name;
  }
  return "";
}

std::string WeightRule::Label() const {
  const std::string what = !match.empty() ? fmt::format("'{}'", match) : op;
  return where.empty() ? "rule " + what : fmt::format("rule {} ({})", what, where);
}

Status SetQuantizeOption(QuantizeOptions& options, std::string_view key, const std::string& value) {
  options.given.emplace(key);
  for (const auto& [name, set] : Setters()) {
    if (name == key) return set(options, value);
  }
  return SetFormatOption(options.format, key, value);
}

Status CompleteOptions(QuantizeOptions& options) {
  if (options.activations == "none") {
    if (options.emit == Emit::kQOperator) return UsageError("emit qoperator needs integer activations (activations)");
    if (options.integer_io) return UsageError("io integer needs integer activations (activations)");
    if (!options.improve.empty()) return UsageError("improve needs integer activations (activations)");
    return OkStatus();
  }
  if (options.activations == "dynamic" && options.given.contains("emit")) {
    return UsageError("emit has no effect with activations dynamic: they have one form");
  }
  if (!options.given.contains("target")) {
    ASSIGN_OR_RETURN(options.target, FindTarget(options.target.name));
  }
  const IntegerRules& rules = options.target.integer;
  if (options.activations == "dynamic") {
    for (const char* op : {"DynamicQuantizeLinear", "MatMulInteger"}) {
      if (!options.target.Runs("", op))
        return UsageError("{} does not run {}: activations dynamic needs it", options.target.name, op);
    }
  }
  if (options.activations == "dynamic" && !options.improve.empty()) {
    return UsageError("improve has no effect with activations dynamic: it needs ranges");
  }
  if (options.activations == "dynamic" && options.integer_io) {
    return UsageError("io integer has no effect with activations dynamic: ranges differ from run to run");
  }
  if (!rules.any()) return UsageError("{} runs nothing in integers", options.target.name);
  if (options.emit == Emit::kNBits)
    return UsageError("emit nbits keeps activations float: it does not go with activations");
  // There are kernels for uint8 by int8 and by uint8, for int8 by int8 alone.
  const bool is_signed = options.activations != "dynamic" && FindFormat(options.activations)->is_signed;
  const auto goes_with = [&](const std::string& format) { return !is_signed || FindFormat(format)->is_signed; };
  if (!options.given.contains("weights")) {
    const auto first = std::find_if(rules.weights.begin(), rules.weights.end(), goes_with);
    options.format.weights = first == rules.weights.end() ? rules.weights.front() : *first;
  }
  if (!goes_with(options.format.weights)) {
    return UsageError("activations {} go with signed weights, not {}", options.activations, options.format.weights);
  }
  const auto& taken = rules.weights;
  if (std::find(taken.begin(), taken.end(), options.format.weights) == taken.end()) {
    return UsageError("with integer activations {} takes weights as {}, not {}", options.target.name,
                      fmt::join(taken, ", "), options.format.weights);
  }
  if (!options.given.contains("group-size")) {
    options.format.granularity = rules.channel_scales ? Granularity::kChannel : Granularity::kTensor;
  }
  if (options.format.granularity == Granularity::kGroup ||
      (options.format.granularity == Granularity::kChannel && !rules.channel_scales)) {
    return UsageError("with integer activations {} takes group-size {}", options.target.name,
                      rules.channel_scales ? "channel or tensor" : "tensor");
  }
  if (options.format.scheme != Scheme::kSymmetric) {
    return UsageError("weights beside integer activations are symmetric: scheme asymmetric is not taken");
  }
  return OkStatus();
}

Status SetFormatOption(WeightFormat& format, std::string_view key, const std::string& value) {
  for (const auto& [name, set] : FormatSetters()) {
    if (name == key) return set(format, value);
  }
  return UsageError("unknown key '{}'", key);
}

Status NeedFloatActivations(const QuantizeOptions& options) {
  for (const char* key : {"activations", "io", "improve"}) {
    if (options.given.contains(key))
      return UsageError("{} has no effect here: formats of weights are tried, activations stay float", key);
  }
  if (options.emit == Emit::kQOperator) return UsageError("emit qoperator has no effect here: activations stay float");
  return OkStatus();
}

const std::vector<std::string>& FormatOptionKeys() {
  static const auto keys = [] {
    std::vector<std::string> out;
    for (const auto& setter : FormatSetters()) out.push_back(setter.first);
    return out;
  }();
  return keys;
}

const std::vector<std::string>& QuantizeOptionKeys() {
  static const auto keys = [] {
    std::vector<std::string> out = FormatOptionKeys();
    for (const auto& setter : Setters()) out.push_back(setter.first);
    return out;
  }();
  return keys;
}

bool HoldsList(std::string_view key) {
  return key == "skip" || key == "skip-op" || key == "only" || key == "include-op" || key == "improve" || key == "gate";
}

}  // namespace quant
