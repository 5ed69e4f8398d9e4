#include "libquant/search/sweep.h"

#include <map>

#include "passes/quant/weight_quant.h"

namespace quant {
namespace {

bool IsNumber(const std::string& word) { return word[0] >= '0' && word[0] <= '9'; }

// Equal for plans that make the same model. A verdict's reason begins with the form; why it was chosen stands in
// brackets.
std::string PlanText(const QuantizePlan& plan) {
  std::string out;
  for (const WeightVerdict& v : plan.verdicts) {
    if (v.kind != VerdictKind::kQuantized) continue;
    out +=
        fmt::format("{}/{}:{}/{}/{}/{}/{};", v.function, v.value, v.reason.substr(0, v.reason.find(" (")),
                    v.spec.format->name, static_cast<int>(v.spec.scheme), static_cast<int>(v.spec.scale_dtype), v.bits);
  }
  return out;
}

// Why no weight is quantized, in the words of the first verdict.
std::string NothingQuantized(const QuantizePlan& plan) {
  if (plan.verdicts.empty()) return "the model has no weights";
  return fmt::format("no weight is quantized: {}: {}", plan.verdicts[0].weight, plan.verdicts[0].reason);
}

}  // namespace

std::vector<SweepConfig> ConfigsOf(const SweepGrid& grid) {
  std::vector<SweepConfig> out;
  for (const SkipSet& set : grid.skip_sets) {
    for (const std::string& weights : grid.weights) {
      for (const std::string& group : grid.group_sizes) {
        for (const std::string& scheme : grid.schemes) {
          SweepConfig config;
          config.name = fmt::format("{} {}{} {}{}", weights, IsNumber(group) ? "g" : "", group, scheme,
                                    set.patterns.empty() ? "" : " skip=" + set.name);
          config.options = grid.base;
          const Status known[] = {SetFormatOption(config.options.format, "weights", weights),
                                  SetFormatOption(config.options.format, "group-size", group),
                                  SetFormatOption(config.options.format, "scheme", scheme)};
          for (const Status& status : known) {
            if (!status.ok()) config.refused = Message(status);
          }
          config.options.skip.insert(config.options.skip.end(), set.patterns.begin(), set.patterns.end());
          out.push_back(std::move(config));
        }
      }
    }
  }
  return out;
}

StatusOr<std::vector<SweepConfig>> PlanSweep(const Model& model, const SweepGrid& grid) {
  std::vector<SweepConfig> configs = ConfigsOf(grid);
  std::map<std::string, size_t> seen;
  Status first = UsageError("the grid is empty");
  for (size_t i = 0; i < configs.size(); ++i) {
    const StatusOr<QuantizePlan> plan = PlanWeights(model, configs[i].options);
    if (!plan.ok()) {
      configs[i].refused = Message(plan.status());
    } else if (plan->quantized_elements() == 0) {
      configs[i].refused = NothingQuantized(*plan);
    } else {
      const auto [it, is_new] = seen.emplace(PlanText(*plan), i);
      if (!is_new) configs[i].same_as = it->second;
    }
    if (seen.empty() && i == 0) first = plan.ok() ? UsageError("{}", configs[i].refused) : plan.status();
  }
  if (seen.empty()) {
    return Status(first.code(), fmt::format("none of {} configurations can be run; {}: {}", configs.size(),
                                            configs[0].name, Message(first)));
  }
  return configs;
}

std::string BaseText(const QuantizeOptions& o) {
  const auto list = [](const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) out += fmt::format("{}:{},", word.size(), word);
    return out;
  };
  std::string out = fmt::format("emit {} keep {} clamp {} level {} scales {} target {}", static_cast<int>(o.emit),
                                static_cast<int>(o.keep), static_cast<int>(o.non_finite), o.accuracy_level,
                                static_cast<int>(o.format.scale_type), o.target.name);
  out += fmt::format(" skip {} skip-op {} only {} include-op {}", list(o.skip), list(o.skip_op), list(o.only),
                     list(o.include_op));
  for (const WeightRule& rule : o.rules) {
    out += fmt::format(" rule {}", list({rule.match, rule.op, rule.skip ? "skip" : ""}));
    for (const auto& [key, value] : rule.format) out += list({key, value});
  }
  return out;
}

std::optional<double> SweepRow::Measure(const std::string& wanted) const {
  for (const auto& [key, value] : measures) {
    if (key == wanted) return value;
  }
  return std::nullopt;
}

}  // namespace quant
