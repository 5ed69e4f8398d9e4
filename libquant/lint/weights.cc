#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "libquant/base/byte_text.h"
#include "libquant/lint/rules.h"
#include "libquant/lint/weight_scan.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

constexpr int64_t kLargeBytes = 64 << 10;
// A weight of fewer elements may well be a fixed filter, and says little of a range.
constexpr int64_t kFewElements = 1024;
// A code of 8 bits and one scale for all: magnitudes below half a step, the largest / 254, become 0.
constexpr double kRange = 254;
constexpr double kLeastNormalHalf = 1.0 / (1 << 14);

struct Weight {
  const Value* value;
  const Graph* graph;
  bool weighted = false;  // of a convolution, product or recurrent layer
  bool divisor = false;
  WeightStats stats;
  const Tensor& tensor() const { return *value->constant; }
};

bool IsWeightOf(const Node& node, int32_t input) {
  const OpDef* op = FindOp(node.domain, node.op_type);
  if (op == nullptr) return false;
  if (const auto* weighted = std::get_if<Weighted>(&op->role)) return weighted->weight == input;
  const auto* recurrent = std::get_if<Recurrent>(&op->role);
  return recurrent != nullptr &&
         std::find(recurrent->weights.begin(), recurrent->weights.end(), input) != recurrent->weights.end();
}

bool IsDivisorOf(const Node& node, int32_t input) { return node.op_type == "Div" && input == 1; }

bool HasReader(const Graph& graph, const Value& value, const auto& is) {
  return std::any_of(value.uses.begin(), value.uses.end(),
                     [&](const Use& use) { return use.node != kNoNode && is(graph.node(use.node), use.index); });
}

// A DequantizeLinear whose value a product reads beside dequantized activations.
bool IsDequantizedWeight(const Graph& graph, const Node& node) {
  if (node.op_type != "DequantizeLinear" || node.outputs.empty() || node.outputs[0] == kNoValue) return false;
  return HasReader(graph, graph.value(node.outputs[0]), [&](const Node& reader, int32_t input) {
    return IsWeightOf(reader, input) && ReadsCodes(graph, reader);
  });
}

// Every constant that can be read in pieces, once for each payload and name.
std::vector<Weight> WeightsOf(const Model& model) {
  std::vector<Weight> out;
  const auto add = [&out](const Graph& graph) {
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      const Value& value = graph.value(v);
      if (value.removed || !value.constant) continue;
      if (!value.constant->is_owned() && value.constant->file_range() == nullptr) continue;
      out.push_back({&value, &graph, HasReader(graph, value, IsWeightOf), HasReader(graph, value, IsDivisorOf), {}});
    }
  };
  add(model.graph);
  for (const Function& function : model.functions) add(function.body);
  return out;
}

class WeightRules {
 public:
  WeightRules(const std::vector<Weight>& weights, const Target& target, std::vector<Finding>& out)
      : weights_(weights), target_(target), out_(out) {}

  void Run() {
    NonFinite();
    Each(FindingId::kWeightAllZero, "weight of zeros", [](const Weight& w) {
      return w.weighted && w.tensor().size() > 0 && w.stats.zeros + w.stats.denormals == w.tensor().size();
    });
    Each(FindingId::kWeightConstant, "weight of one number", [](const Weight& w) {
      return w.weighted && w.tensor().size() >= kFewElements && w.stats.uniform && w.stats.zeros == 0 &&
             w.stats.largest > 0;
    });
    Saturation();
    Range();
    Counted(FindingId::kWeightDenormal, "with denormal elements", [](const Weight& w) { return w.stats.denormals; });
    Counted(FindingId::kWeightHalfOverflow, "beyond float16's range",
            [](const Weight& w) { return IsHalf(w) ? 0 : w.stats.half_overflows; });
    Counted(FindingId::kWeightHalfUnderflow, "with elements that are 0 in float16", [](const Weight& w) {
      const int64_t n = IsHalf(w) ? 0 : w.stats.half_underflows;
      // Beside larger elements what is lost is less than float16's rounding of those.
      const bool matters = w.tensor().size() == 1 || w.divisor || w.stats.largest < kLeastNormalHalf;
      return matters ? n : 0;
    });
    Int64Tables();
  }

 private:
  static bool IsHalf(const Weight& w) { return w.tensor().dtype() == DType::kFloat16; }
  static std::string Label(const Weight& w) { return w.value->name + " " + Describe(w.tensor()); }

  void Add(FindingId finding, std::string_view noun, std::string_view rest, std::vector<std::string> where) {
    if (where.empty()) return;
    std::string what = Count(where.size(), noun);
    if (!rest.empty()) what += fmt::format(" {}", rest);
    out_.push_back(Finding::Of(finding, std::move(what), std::move(where)));
  }

  // A finding about the weights that `is` holds for; the noun's plural is of its first word.
  void Each(FindingId finding, const std::string& noun, bool (*is)(const Weight&)) {
    std::vector<std::string> where;
    for (const Weight& w : weights_) {
      if (is(w)) where.push_back(Label(w));
    }
    const size_t space = noun.find(' ');
    Add(finding, noun.substr(0, space), noun.substr(space + 1), std::move(where));
  }

  // About constants with elements of a kind, those with the largest share first.
  void Counted(FindingId finding, const std::string& rest, int64_t (*count)(const Weight&)) {
    std::vector<std::pair<double, std::string>> found;
    for (const Weight& w : weights_) {
      const int64_t n = count(w);
      if (n == 0) continue;
      const int64_t size = w.tensor().size();
      found.emplace_back(-static_cast<double>(n) / static_cast<double>(size),
                         size == 1 ? Label(w) : fmt::format("{}: {} of {}", Label(w), n, size));
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> where;
    where.reserve(found.size());
    for (auto& entry : found) where.push_back(std::move(entry.second));
    Add(finding, "constant", rest, std::move(where));
  }

  void NonFinite() {
    std::vector<std::string> where;
    for (const Weight& w : weights_) {
      const WeightStats& s = w.stats;
      const int64_t size = w.tensor().size();
      // Bounds and fill values are scalars; masks are 0 and infinity.
      const bool meant = size == 1 || s.zeros == size - s.infinities;
      if (s.nans == 0 && (s.infinities == 0 || meant)) continue;
      where.push_back(fmt::format("{}: {} NaN, {} infinite of {}", Label(w), s.nans, s.infinities, size));
    }
    Add(FindingId::kWeightNonFinite, "constant", "with NaN or infinity", std::move(where));
  }

  // Signed codes that an integer product multiplies by.
  void Saturation() {
    const int32_t limit = target_.integer.most_signed_code;
    std::vector<std::string> where;
    for (const Weight& w : weights_) {
      if (limit == 0 || w.tensor().dtype() != DType::kInt8) continue;
      const int64_t most = std::max(-w.stats.least, w.stats.most);
      if (most > limit && HasReader(*w.graph, *w.value, [&](const Node& node, int32_t input) {
            return input == 0 && IsDequantizedWeight(*w.graph, node);
          })) {
        where.push_back(fmt::format("{}: codes up to {}", Label(w), most));
      }
    }
    Add(FindingId::kTargetSaturation, "weight", "of all 8 bits", std::move(where));
  }

  void Range() {
    std::vector<std::string> where;
    for (const Weight& w : weights_) {
      const WeightStats& s = w.stats;
      if (!w.weighted || w.tensor().size() < kFewElements || !s.median || s.largest <= kRange * *s.median) continue;
      where.push_back(fmt::format("{}: {:.3g} is {:.3g} times the median", Label(w), s.largest, s.largest / *s.median));
    }
    Add(FindingId::kWeightRange, "weight", "with a few large elements", std::move(where));
  }

  void Int64Tables() {
    const auto is_index = [](const Node& node, int32_t input) {
      const std::string& op = node.op_type;
      return node.domain.empty() && input == 1 && (op == "Gather" || op == "GatherElements" || op == "ScatterElements");
    };
    std::vector<std::string> where;
    for (const Weight& w : weights_) {
      const bool fits =
          w.stats.least >= std::numeric_limits<int32_t>::min() && w.stats.most <= std::numeric_limits<int32_t>::max();
      if (w.tensor().dtype() != DType::kInt64 || w.tensor().byte_size() < kLargeBytes || !fits) continue;
      const bool others =
          HasReader(*w.graph, *w.value, [&](const Node& node, int32_t i) { return !is_index(node, i); });
      if (!others && HasReader(*w.graph, *w.value, is_index)) where.push_back(Label(w));
    }
    Add(FindingId::kTypeInt64, "table", "of int64", std::move(where));
  }

  const std::vector<Weight>& weights_;
  const Target& target_;
  std::vector<Finding>& out_;
};

Status LintDuplicates(const std::vector<Weight>& weights, std::vector<Finding>& out) {
  std::map<std::tuple<DType, int64_t, uint64_t>, std::vector<const Weight*>> groups;
  for (const Weight& w : weights) {
    if (w.tensor().byte_size() < kLargeBytes) continue;
    groups[{w.tensor().dtype(), w.tensor().byte_size(), w.stats.hash}].push_back(&w);
  }
  std::vector<std::string> where;
  int64_t copies = 0, bytes = 0;
  for (const auto& entry : groups) {
    const std::vector<const Weight*>& group = entry.second;
    std::string names = group[0]->value->name;
    int64_t same = 0;
    std::vector<const Weight*> payloads = {group[0]};
    for (size_t i = 1; i < group.size(); ++i) {
      const bool shared = std::any_of(payloads.begin(), payloads.end(), [&](const Weight* w) {
        return w->tensor().SharesPayloadWith(group[i]->tensor());
      });
      if (shared) continue;
      ASSIGN_OR_RETURN(const bool equal, SameBytes(group[0]->tensor(), group[i]->tensor()));
      if (!equal) continue;
      payloads.push_back(group[i]);
      names += fmt::format(" = {}", group[i]->value->name);
      ++same;
    }
    if (same == 0) continue;
    where.push_back(fmt::format("{}, {} each", names, Bytes(group[0]->tensor().byte_size())));
    copies += same;
    bytes += same * group[0]->tensor().byte_size();
  }
  if (where.empty()) return OkStatus();
  out.push_back(Finding::Of(
      FindingId::kWeightDuplicate,
      fmt::format("{} {} of other constants, ", copies, copies == 1 ? "copy" : "copies") + Bytes(bytes), where));
  return OkStatus();
}

}  // namespace

Status LintWeights(const Model& model, const LintOptions& options, std::vector<Finding>& out) {
  std::vector<Weight> weights = WeightsOf(model);
  std::vector<ScanRequest> requests;
  requests.reserve(weights.size());
  for (const Weight& w : weights) requests.push_back({&w.tensor(), w.weighted && w.tensor().size() >= kFewElements});
  ASSIGN_OR_RETURN(const std::vector<WeightStats> stats, ScanWeights(requests, options.progress));
  for (size_t i = 0; i < weights.size(); ++i) weights[i].stats = stats[i];
  WeightRules(weights, options.target, out).Run();
  return LintDuplicates(weights, out);
}

}  // namespace quant
