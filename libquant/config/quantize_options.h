// Typed options of the quantizer: what the command line, a YAML file or a preset says.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/target.h"
#include "libquant/numerics/quantize.h"

namespace quant {

enum class Emit { kQdq, kNBits, kQOperator };
std::string_view NameOf(Emit emit);
enum class Keep { kFloat, kHalf };

// How one weight is stored.
struct WeightFormat {
  std::string weights = "int4";  // a Format's name
  Granularity granularity = Granularity::kGroup;
  int64_t group_size = 32;
  Scheme scheme = Scheme::kSymmetric;
  DType scale_type = DType::kUndefined;  // kUndefined: the activation's type
};

// An accuracy helper that needs no training, tried on the samples that ranges come from and kept where it helps.
struct Improvement {
  enum class Kind { kEqualize, kBalance, kCorrectBias };
  Kind kind = Kind::kEqualize;
  double alpha = 0.5;         // of kBalance
  std::string Label() const;  // "balance=0.5"
};

// A rule for the weights whose name, or a reader's, matches; the first rule that does is the weight's.
struct WeightRule {
  std::string match;  // RE2, found anywhere in a name; empty: every name
  std::string op;     // type of a reader; empty: every one
  bool skip = false;  // they stay float
  // Else they are stored in this format: keys of WeightFormat with their words; the rest is as for all other weights.
  std::vector<std::pair<std::string, std::string>> format;
  std::string where;          // "rules.yaml:7", for messages
  std::string Label() const;  // "rule 'attn' (rules.yaml:7)"
};

struct QuantizeOptions {
  WeightFormat format;
  Emit emit = Emit::kQdq;
  // "none": they stay float; a Format's name: codes at ranges known beforehand; "dynamic": codes at each run's range.
  std::string activations = "none";
  bool integer_io = false;           // the model's inputs and outputs are codes where they can be
  std::vector<Improvement> improve;  // in the order in which they are tried
  Keep keep = Keep::kFloat;          // type of the weights that are not quantized
  NonFinite non_finite = NonFinite::kError;
  int64_t accuracy_level = 4;           // of MatMulNBits
  bool accuracy_level_set = false;      // given by the user: then an error with qdq, where it has no effect
  std::vector<std::string> skip;        // RE2 on node or weight names
  std::vector<std::string> skip_op;     // operator types
  std::vector<std::string> only;        // RE2
  std::vector<std::string> include_op;  // operator types whose weights are quantized on request only
  std::vector<std::string> gate;        // what the result must hold to: not looked at here
  std::vector<WeightRule> rules;
  Target target;
  std::set<std::string, std::less<>> given;  // keys that SetQuantizeOption was called with
};

// Sets an option by the name and the words that flags and files share: "group-size", "channel". A key that holds a
// list (skip, skip-op, only, include-op, improve, gate) takes one entry more. UsageError naming the key and what it
// takes; unknown keys too.
Status SetQuantizeOption(QuantizeOptions& options, std::string_view key, const std::string& value);
// Fills in what was not given and follows from what was: integer activations want weights of 8 bits in the target's
// preferred format, a scale for each channel. UsageError for what has no effect or does not go together.
Status CompleteOptions(QuantizeOptions& options);
// For tools that try formats of weights: UsageError when activations are not float.
Status NeedFloatActivations(const QuantizeOptions& options);
// The keys that SetQuantizeOption knows, and of these the ones that hold a list.
const std::vector<std::string>& QuantizeOptionKeys();
bool HoldsList(std::string_view key);

// The same for the keys of a WeightFormat alone: weights, group-size, scheme, scale-type.
Status SetFormatOption(WeightFormat& format, std::string_view key, const std::string& value);
const std::vector<std::string>& FormatOptionKeys();

}  // namespace quant
