#include "libquant/search/weight_formats.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace quant {

// What the quantizer makes of every weight in one candidate's format, and which operators of --include-op count there.
struct CandidatePlan {
  QuantizePlan plan;                                    // empty for float
  std::map<size_t, std::vector<std::string>> requests;  // by verdict
};

namespace {

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t end = text.find(at); end != std::string::npos; end = text.find(at, begin)) {
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  out.push_back(text.substr(begin));
  return out;
}

StatusOr<CandidateFormat> ParseCandidate(const std::string& label) {
  CandidateFormat out;
  out.label = label;
  out.is_float = label == "float";
  if (out.is_float) return out;
  static const std::vector<std::string> keys = {"weights", "group-size", "scheme"};
  const std::vector<std::string> words = Split(label, '/');
  if (words.size() < 2 || words.size() > keys.size()) {
    return UsageError("'{}' is no candidate: FORMAT/GROUP or FORMAT/GROUP/SCHEME, as in int4/32, or float", label);
  }
  WeightFormat scratch;
  for (size_t i = 0; i < words.size(); ++i) {
    const Status status = SetFormatOption(scratch, keys[i], words[i]);
    if (!status.ok()) return WithContext(status, fmt::format("candidate '{}'", label));
    out.words.emplace_back(keys[i], words[i]);
  }
  return out;
}

// A pattern that this name alone matches, found anywhere as patterns are.
std::string ExactPattern(const std::string& name) {
  std::string out = "^";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != '_') out += '\\';
    out += c;
  }
  return out + "$";
}

QuantizeOptions InFormat(QuantizeOptions options, const CandidateFormat& candidate) {
  for (const auto& [key, word] : candidate.words) {
    const Status status = SetFormatOption(options.format, key, word);
    if (!status.ok()) break;  // ParseCandidate has looked
  }
  return options;
}

const std::string& NameIn(const Model& model, const WeightVerdict& v) {
  return GraphOf(model, v.function).value(v.value).name;
}

// The names that a rule may match: the weight's own and its readers'.
std::vector<std::string> SeenNames(const Model& model, const WeightVerdict& v) {
  std::vector<std::string> out = {NameIn(model, v)};
  for (const NodeId n : v.readers) out.push_back(GraphOf(model, v.function).node(n).name);
  return out;
}

StatusOr<CandidatePlan> PlanIn(const Model& model, QuantizeOptions options, std::set<std::string>& effective) {
  const std::vector<std::string> requested = std::move(options.include_op);
  options.include_op.clear();
  CandidatePlan out;
  std::vector<std::string> useful;
  ASSIGN_OR_RETURN(const QuantizePlan without, PlanWeights(model, options));
  for (const std::string& op : requested) {
    options.include_op = {op};
    StatusOr<QuantizePlan> with = PlanWeights(model, options);
    if (!with.ok()) continue;  // it has no effect with this format
    useful.push_back(op);
    effective.insert(op);
    for (size_t i = 0; i < with->verdicts.size(); ++i) {
      if (with->verdicts[i].kind != without.verdicts[i].kind) out.requests[i].push_back(op);
    }
  }
  options.include_op = useful;
  ASSIGN_OR_RETURN(out.plan, PlanWeights(model, options));
  return out;
}

// Weights whose rules would also match another one go with it.
std::vector<std::vector<size_t>> GroupByNames(const Model& model, const std::vector<WeightVerdict>& verdicts,
                                              const std::vector<size_t>& chosen) {
  std::map<std::string, std::vector<size_t>> seen_by;  // name -> places in `chosen` of weights that rules for it match
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (const std::string& name : SeenNames(model, verdicts[chosen[i]])) seen_by[name].push_back(i);
  }
  std::vector<size_t> head(chosen.size());
  std::iota(head.begin(), head.end(), size_t{0});
  const auto find = [&](size_t i) {
    while (head[i] != i) i = head[i];
    return i;
  };
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (const size_t j : seen_by[NameIn(model, verdicts[chosen[i]])]) {
      const auto [low, high] = std::minmax({find(i), find(j)});
      head[high] = low;
    }
  }
  std::map<size_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < chosen.size(); ++i) groups[find(i)].push_back(chosen[i]);
  std::vector<std::vector<size_t>> out;
  out.reserve(groups.size());
  for (auto& [first, group] : groups) out.push_back(std::move(group));
  return out;
}

int64_t FloatBits(const Model& model, const WeightVerdict& v, const QuantizeOptions& options) {
  const Tensor& weight = *GraphOf(model, v.function).value(v.value).constant;
  const bool half = options.keep == Keep::kHalf && weight.dtype() == DType::kFloat;
  return weight.byte_size() * (half ? 4 : 8);
}

WeightUnit UnitOf(const Model& model, const std::vector<WeightVerdict>& verdicts, const std::vector<size_t>& group,
                  const QuantizeOptions& options) {
  WeightUnit unit;
  const WeightVerdict& first = verdicts[group[0]];
  unit.op_type = first.op_type;
  unit.node = first.node;
  unit.dims = first.dims;
  for (const size_t i : group) {
    const WeightVerdict& v = verdicts[i];
    unit.weights.push_back(v.weight);
    // A rule has to be some weight's first: none for those that the rules before match.
    const std::vector<std::string> seen = SeenNames(model, v);
    const bool covered = std::any_of(unit.names.begin(), unit.names.end(), [&](const std::string& name) {
      return std::find(seen.begin(), seen.end(), name) != seen.end();
    });
    if (!covered) unit.names.push_back(seen[0]);
    unit.elements += v.elements;
    unit.float_bits += FloatBits(model, v, options);
  }
  return unit;
}

// The unit in one candidate's format, the same text and bits for what comes to the same: nullopt when one of its
// weights has no such form.
struct UnitForm {
  std::string form;
  int64_t bits = 0;
};
std::optional<UnitForm> FormOf(const CandidatePlan& planned, const std::vector<size_t>& group) {
  UnitForm out;
  for (const size_t i : group) {
    const WeightVerdict& v = planned.plan.verdicts[i];
    if (v.kind != VerdictKind::kQuantized) return std::nullopt;
    const bool groups = v.spec.granularity == Granularity::kGroup;
    out.form += fmt::format("{} {} {} {};", v.spec.format->name, static_cast<int>(v.spec.granularity),
                            groups ? v.spec.group_size : 0, static_cast<int>(v.spec.scheme));
    out.bits += v.bits;
  }
  return out;
}

void AddAlternatives(const std::vector<CandidateFormat>& candidates, const std::vector<CandidatePlan>& plans,
                     const std::vector<size_t>& group, WeightUnit& unit, ChoiceItem& item) {
  std::vector<UnitForm> known;
  for (size_t c = 0; c < candidates.size(); ++c) {
    std::optional<UnitForm> form =
        candidates[c].is_float ? UnitForm{"float", unit.float_bits} : FormOf(plans[c], group);
    unit.alternatives.emplace_back(std::nullopt);
    if (!form) continue;
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const UnitForm& k) { return k.form == form->form && k.bits == form->bits; });
    unit.alternatives.back() = static_cast<size_t>(same - known.begin());
    if (same != known.end()) continue;
    item.alternatives.push_back({candidates[c].label, form->bits, 0});
    unit.candidates.push_back(c);
    known.push_back(*std::move(form));
  }
}

void AddRequests(const std::vector<CandidatePlan>& plans, const std::vector<size_t>& group, WeightUnit& unit) {
  std::set<std::string> all;
  for (const CandidatePlan& planned : plans) {
    for (const size_t i : group) {
      const auto it = planned.requests.find(i);
      if (it != planned.requests.end()) all.insert(it->second.begin(), it->second.end());
    }
  }
  unit.requests.assign(all.begin(), all.end());
}

}  // namespace

const char* DefaultCandidates() { return "int4/32,int4/64,int4/128,int4/channel,int8/32,int8/channel,float"; }

StatusOr<std::vector<CandidateFormat>> ParseCandidates(const std::string& list) {
  std::vector<CandidateFormat> out;
  for (const std::string& label : Split(list, ',')) {
    ASSIGN_OR_RETURN(CandidateFormat candidate, ParseCandidate(label));
    if (std::any_of(out.begin(), out.end(), [&](const CandidateFormat& c) { return c.label == label; })) {
      return UsageError("candidate '{}' is named twice", label);
    }
    out.push_back(std::move(candidate));
  }
  return out;
}

StatusOr<WeightFormats> WeightFormats::Make(const Model& model, const QuantizeOptions& options,
                                            std::vector<CandidateFormat> candidates) {
  WeightFormats out;
  out.options_ = options;
  out.candidates_ = std::move(candidates);
  std::vector<CandidatePlan> plans;
  std::set<std::string> effective;
  const QuantizePlan* some = nullptr;
  for (const CandidateFormat& candidate : out.candidates_) {
    CandidatePlan& plan = plans.emplace_back();
    if (candidate.is_float) continue;
    ASSIGN_OR_RETURN(plan, PlanIn(model, InFormat(options, candidate), effective));
  }
  for (const CandidatePlan& p : plans) some = some == nullptr && !p.plan.verdicts.empty() ? &p.plan : some;
  for (const std::string& op : options.include_op) {
    if (!effective.contains(op)) return UsageError("--include-op {} has no effect with any of the candidates", op);
  }
  if (some != nullptr) out.AddUnits(model, some->verdicts, plans);
  const QuantizeOptions all_float = out.OptionsForOne(-1, 0);
  ASSIGN_OR_RETURN(const QuantizePlan plan, PlanWeights(model, all_float));
  out.other_bytes_ = EstimateBytes(model, plan, all_float);
  for (const WeightUnit& unit : out.units_) out.other_bytes_ -= unit.float_bits / 8;
  out.changes_others_ = options.keep == Keep::kHalf || plan.quantized_elements() > 0;
  return out;
}

void WeightFormats::AddUnits(const Model& model, const std::vector<WeightVerdict>& verdicts,
                             const std::vector<CandidatePlan>& plans) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const bool any = std::any_of(plans.begin(), plans.end(), [&](const CandidatePlan& p) {
      return !p.plan.verdicts.empty() && p.plan.verdicts[i].kind == VerdictKind::kQuantized;
    });
    if (any && verdicts[i].rule.empty() && !NameIn(model, verdicts[i]).empty()) chosen.push_back(i);
    if (!any || verdicts[i].rule.empty()) continue;
    for (const CandidatePlan& p : plans) {
      const auto requests = p.requests.find(i);
      if (requests == p.requests.end()) continue;
      fixed_requests_.insert(fixed_requests_.end(), requests->second.begin(), requests->second.end());
    }
  }
  for (const std::vector<size_t>& group : GroupByNames(model, verdicts, chosen)) {
    WeightUnit unit = UnitOf(model, verdicts, group, options_);
    ChoiceItem item;
    item.name = unit.weights.size() == 1 ? unit.weights[0]
                                         : fmt::format("{} and {} more", unit.weights[0], unit.weights.size() - 1);
    AddAlternatives(candidates_, plans, group, unit, item);
    AddRequests(plans, group, unit);
    if (item.alternatives.empty()) continue;
    units_.push_back(std::move(unit));
    items_.push_back(std::move(item));
  }
}

int64_t WeightFormats::elements() const {
  int64_t sum = 0;
  for (const WeightUnit& unit : units_) sum += unit.elements;
  return sum;
}

QuantizeOptions WeightFormats::With(const Formats& formats, const std::string& where) const {
  QuantizeOptions out = options_;
  std::set<std::string> requests(fixed_requests_.begin(), fixed_requests_.end());
  for (size_t i = 0; i < units_.size(); ++i) {
    const bool is_float = !formats[i] || candidates_[*formats[i]].is_float;
    for (const std::string& name : units_[i].names) {
      WeightRule rule;
      rule.match = ExactPattern(name);
      rule.where = where;
      rule.skip = is_float;
      if (!is_float) rule.format = candidates_[*formats[i]].words;
      out.rules.push_back(std::move(rule));
    }
    if (!is_float) requests.insert(units_[i].requests.begin(), units_[i].requests.end());
  }
  std::erase_if(out.include_op, [&](const std::string& op) { return !requests.contains(op); });
  return out;
}

QuantizeOptions WeightFormats::OptionsFor(const Choice& choice, const std::string& where) const {
  Formats formats;
  for (size_t i = 0; i < choice.size(); ++i) formats.emplace_back(units_[i].candidates[choice[i]]);
  return With(formats, where);
}

QuantizeOptions WeightFormats::OptionsForOne(int64_t unit, size_t alternative) const {
  Formats formats(units_.size());
  if (unit >= 0) {
    const auto at = static_cast<size_t>(unit);
    formats[at] = units_[at].candidates[alternative];
  }
  return With(formats, "");
}

std::optional<Choice> WeightFormats::Uniform(size_t candidate) const {
  Choice out;
  for (const WeightUnit& unit : units_) {
    std::optional<size_t> alternative = unit.alternatives[candidate];
    for (size_t c = 0; c < candidates_.size() && !alternative; ++c) {
      if (candidates_[c].is_float) alternative = unit.alternatives[c];
    }
    if (!alternative) return std::nullopt;
    out.push_back(*alternative);
  }
  return out;
}

}  // namespace quant
