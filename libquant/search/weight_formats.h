// The weights of a model whose formats are to be chosen, and the formats to choose from. A choice becomes rules of the
// quantizer, one for each weight, so that it can be written to a file and done again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "libquant/search/choose.h"
#include "passes/quant/weight_quant.h"

namespace quant {

// A format that any weight may get.
struct CandidateFormat {
  std::string label;                                       // "int4/32", as it is given
  bool is_float = false;                                   // the weight stays as it is
  std::vector<std::pair<std::string, std::string>> words;  // keys of WeightFormat with their words
};

// "int4/32,int8/channel/asymmetric,float". UsageError for anything else, and for a format named twice.
StatusOr<std::vector<CandidateFormat>> ParseCandidates(const std::string& list);
// int4 in groups of 32, 64, 128 and per channel, int8 in groups of 32 and per channel, float.
const char* DefaultCandidates();

// Weights that get one format together: one, or several that no rule can tell apart by their names.
struct WeightUnit {
  std::vector<std::string> weights;  // as verdicts name them
  std::vector<std::string> names;    // as rules match them
  std::string op_type;               // of the first reader of the first
  std::string node;
  Dims dims;  // of the first
  int64_t elements = 0;
  int64_t float_bits = 0;                           // where they stay float
  std::vector<size_t> candidates;                   // for each alternative the first candidate that gives it
  std::vector<std::optional<size_t>> alternatives;  // for each candidate the alternative; nullopt: no such form
  std::vector<std::string> requests;                // of --include-op: operators that have to be there for it
};

struct CandidatePlan;

class WeightFormats {
 public:
  // Weights that the options let be quantized and that none of their rules takes, in order of first use. Candidates
  // that come to the same form for a weight count once. UsageError and others as PlanWeights.
  static StatusOr<WeightFormats> Make(const Model& model, const QuantizeOptions& options,
                                      std::vector<CandidateFormat> candidates);

  const std::vector<WeightUnit>& units() const { return units_; }
  const std::vector<CandidateFormat>& candidates() const { return candidates_; }
  // One for each unit, without noise yet.
  std::vector<ChoiceItem>& items() { return items_; }
  const std::vector<ChoiceItem>& items() const { return items_; }
  int64_t elements() const;
  // Bytes of the files without the units' weights.
  int64_t other_bytes() const { return other_bytes_; }

  // More changes than the units': weights that rules take, or types of what stays float.
  bool changes_others() const { return changes_others_; }

  // Each unit with its alternative; `where` names what chose them.
  QuantizeOptions OptionsFor(const Choice& choice, const std::string& where) const;
  // This unit with an alternative, all others float; -1: all.
  QuantizeOptions OptionsForOne(int64_t unit, size_t alternative) const;
  // Every unit in this candidate's format, or float where it has no such form, as the quantizer does it. nullopt when
  // float is no candidate then.
  std::optional<Choice> Uniform(size_t candidate) const;

 private:
  using Formats = std::vector<std::optional<size_t>>;  // of each unit the candidate; nullopt: float
  void AddUnits(const Model& model, const std::vector<WeightVerdict>& verdicts,
                const std::vector<CandidatePlan>& plans);
  QuantizeOptions With(const Formats& formats, const std::string& where) const;

  QuantizeOptions options_;
  std::vector<CandidateFormat> candidates_;
  std::vector<WeightUnit> units_;
  std::vector<ChoiceItem> items_;
  std::vector<std::string> fixed_requests_;  // of weights that rules take
  int64_t other_bytes_ = 0;
  bool changes_others_ = false;
};

}  // namespace quant
