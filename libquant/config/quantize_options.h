// Typed options of the quantizer: what the command line, a YAML file or a preset says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libquant/numerics/quantize.h"

namespace quant {

enum class Emit { kQdq, kNBits };

struct QuantizeOptions {
  std::string weights = "int4";  // a Format's name
  Granularity granularity = Granularity::kGroup;
  int64_t group_size = 32;
  Scheme scheme = Scheme::kSymmetric;
  Emit emit = Emit::kQdq;
  // kUndefined: the activation's type.
  DType scale_type = DType::kUndefined;
  NonFinite non_finite = NonFinite::kError;
  int64_t accuracy_level = 4;        // of MatMulNBits
  bool accuracy_level_set = false;   // given by the user: then an error with qdq, where it has no effect
  std::vector<std::string> skip;     // RE2 on node or weight names
  std::vector<std::string> skip_op;  // operator types
  std::vector<std::string> only;     // RE2
  std::string target = "portable";
};

// A runtime the result is for. `portable` allows what every one of them takes.
struct Target {
  std::string_view name;
  bool negative_scales;
  std::string_view about;
};
// Null when unknown.
const Target* FindTarget(std::string_view name);
std::vector<std::string_view> TargetNames();

}  // namespace quant
