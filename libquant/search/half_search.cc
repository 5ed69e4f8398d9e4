#include "libquant/search/half_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "libquant/exec/session.h"
#include "libquant/verify/answers.h"
#include "libquant/verify/compare.h"
#include "libquant/verify/layers.h"

namespace quant {
namespace {

constexpr size_t kFirstRound = 4;  // layers
constexpr int kMostRounds = 12;

struct Trial {
  Model model;
  HalfReport half;
  DiffReport diff;
  std::vector<std::pair<std::string, double>> outputs;
  size_t worst = 0;
  double sqnr() const { return outputs.empty() ? std::numeric_limits<double>::infinity() : outputs[worst].second; }
};

// NaN, of answers that are not finite, counts as the worst.
double LeastOf(const std::vector<double>& sqnr) {
  double least = std::numeric_limits<double>::infinity();
  for (double db : sqnr) {
    if (std::isnan(db)) return -std::numeric_limits<double>::infinity();
    least = std::min(least, db);
  }
  return least;
}

// Power of the noise over that of the signal.
double NoiseOf(double sqnr_db) { return std::isnan(sqnr_db) ? 1e30 : std::pow(10.0, -sqnr_db / 10); }

class Search {
 public:
  Search(const Model& model, SampleSource& samples, const HalfOptions& options, const HalfSearchOptions& search)
      : model_(model), graph_(model.graph), samples_(samples), options_(options), search_(search) {}

  StatusOr<HalfSearch> Run() {
    ASSIGN_OR_RETURN(Trial best, Try());
    Note({}, best, false, false);
    size_t count = kFirstRound;
    for (int round = 0; round < kMostRounds && best.sqnr() < search_.min_sqnr; ++round, count *= 2) {
      const std::vector<NodeId> taken = Take(best, count);
      if (taken.empty()) break;
      for (NodeId n : taken) Keep(n);
      const double before = best.sqnr();
      ASSIGN_OR_RETURN(best, Try());
      for (NodeId n : taken) SayWhy(n, before, best.sqnr());
      steps_.push_back(taken);
      Note(taken, best, false, false);
    }
    if (best.sqnr() >= search_.min_sqnr) RETURN_IF_ERROR(GiveBack(best));
    ASSIGN_OR_RETURN(best, Try());
    out_.met = best.sqnr() >= search_.min_sqnr;
    out_.model = std::move(best.model);
    out_.half = std::move(best.half);
    out_.outputs = std::move(best.outputs);
    return std::move(out_);
  }

 private:
  StatusOr<Trial> Try() {
    Trial trial;
    trial.model = model_;
    ASSIGN_OR_RETURN(trial.half, ConvertToHalf(trial.model, options_));
    ASSIGN_OR_RETURN(auto session, Session::Create(trial.model));
    const auto candidate = RunningAnswers("the half model", trial.model, std::move(session));
    ASSIGN_OR_RETURN(const auto layers, LayerCollector::Make(model_, trial.model));
    ASSIGN_OR_RETURN(auto again, Session::Create(model_));
    const auto reference = RunningAnswers("the float model", model_, std::move(again));
    CompareOptions compare;
    compare.layers = layers.get();
    compare.worst_layers = 0;
    compare.progress = search_.progress;
    ASSIGN_OR_RETURN(trial.diff, Compare(*reference, *candidate, samples_, compare));
    for (const DiffOutput& output : trial.diff.outputs) {
      trial.outputs.emplace_back(output.name, LeastOf(output.sqnr_by_sample));
      if (trial.outputs.back().second < trial.outputs[trial.worst].second) trial.worst = trial.outputs.size() - 1;
    }
    return trial;
  }

  // Nodes that reach an output below the line, bodies' included.
  std::set<NodeId> Reaching(const Trial& trial) const {
    std::set<std::string> low;
    for (const auto& [name, db] : trial.outputs) {
      if (db < search_.min_sqnr) low.insert(name);
    }
    std::vector<ValueId> todo;
    for (ValueId v : graph_.main().outputs) {
      if (low.contains(graph_.value(v).name)) todo.push_back(v);
    }
    std::set<NodeId> seen;
    while (!todo.empty()) {
      const NodeId n = graph_.value(todo.back()).producer;
      todo.pop_back();
      if (n == kNoNode || !seen.insert(n).second) continue;
      for (ValueId v : graph_.node(n).inputs) {
        if (v != kNoValue) todo.push_back(v);
      }
      for (RegionId r : BodiesOf(graph_.node(n))) {
        for (ValueId v : graph_.region(r).outputs) todo.push_back(v);
      }
    }
    return seen;
  }

  std::string NameOfFirst(NodeId n) const {
    for (ValueId v : graph_.node(n).outputs) {
      if (v != kNoValue) return graph_.value(v).name;
    }
    return "";
  }
  bool Kept(NodeId n) const { return options_.keep_makers.contains(NameOfFirst(n)); }
  bool MayKeep(NodeId n) const {
    const Node& node = graph_.node(n);
    return node.op_type != "Constant" && BodiesOf(node).empty() && !NameOfFirst(n).empty() && !Kept(n);
  }
  void Keep(NodeId n) { options_.keep_makers[NameOfFirst(n)] = "--min-sqnr"; }
  void SayWhy(NodeId n, double before, double after) {
    options_.keep_makers[NameOfFirst(n)] = fmt::format("--min-sqnr: {:.1f} dB before, {:.1f} after", before, after);
  }

  // The `count` layers that add most noise, with what makes their inputs; in the graph's order.
  std::vector<NodeId> Take(const Trial& trial, size_t count) const {
    std::map<std::string, double> noise;
    for (const DiffLayer& layer : trial.diff.layers->layers) noise[layer.name] = NoiseOf(layer.metrics.sqnr_db());
    const auto of = [&](ValueId v) {
      const auto it = v == kNoValue ? noise.end() : noise.find(graph_.value(v).name);
      return it == noise.end() ? 0.0 : it->second;
    };
    std::vector<std::pair<double, NodeId>> order;
    for (NodeId n : Reaching(trial)) {
      if (!MayKeep(n)) continue;
      double in = 0, made = 0;
      for (ValueId v : graph_.node(n).inputs) in = std::max(in, of(v));
      for (ValueId v : graph_.node(n).outputs) made = std::max(made, of(v));
      order.emplace_back(in - made, n);  // most added first
    }
    std::sort(order.begin(), order.end());
    std::set<NodeId> taken;
    for (size_t i = 0; i < std::min(count, order.size()); ++i) {
      taken.insert(order[i].second);
      for (ValueId v : graph_.node(order[i].second).inputs) {
        const NodeId from = v == kNoValue ? kNoNode : graph_.value(v).producer;
        if (from != kNoNode && MayKeep(from)) taken.insert(from);
      }
    }
    return {taken.begin(), taken.end()};
  }

  Status GiveBack(Trial& best) {
    for (const std::vector<NodeId>& step : steps_) {
      if (step == steps_.back() && steps_.size() == 1) break;
      const std::map<std::string, std::string> before = options_.keep_makers;
      for (NodeId n : step) options_.keep_makers.erase(NameOfFirst(n));
      ASSIGN_OR_RETURN(Trial trial, Try());
      const bool held = trial.sqnr() >= search_.min_sqnr;
      Note(step, trial, true, held);
      if (held) {
        best = std::move(trial);
      } else {
        options_.keep_makers = before;
      }
    }
    return OkStatus();
  }

  void Note(const std::vector<NodeId>& nodes, const Trial& trial, bool gives_back, bool held) {
    HalfRound round{gives_back, held, {}, "", trial.sqnr()};
    for (NodeId n : nodes) round.nodes.push_back(graph_.NodeLabel(n));
    if (!trial.outputs.empty()) round.worst = trial.outputs[trial.worst].first;
    out_.rounds.push_back(std::move(round));
  }

  const Model& model_;
  const Graph& graph_;
  SampleSource& samples_;
  HalfOptions options_;
  const HalfSearchOptions& search_;
  std::vector<std::vector<NodeId>> steps_;
  HalfSearch out_;
};

}  // namespace

StatusOr<HalfSearch> SearchHalf(const Model& model, SampleSource& samples, const HalfOptions& options,
                                const HalfSearchOptions& search) {
  return Search(model, samples, options, search).Run();
}

}  // namespace quant
