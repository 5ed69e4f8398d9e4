// A runtime that a model is made for: what it runs and what it takes. Targets are data, a file each in configs/targets,
// built into the program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/integer_rules.h"
#include "libquant/ir/dtype.h"

namespace quant {

struct Target {
  std::string name = "portable";
  std::string about;
  // 4-bit scales may be negative where that is more exact.
  bool negative_scales = false;
  // Opsets of the default domain that it reads.
  int64_t min_opset = 1;
  int64_t max_opset = 1000;
  // Dimensions may be open.
  bool dynamic_shapes = true;
  // Types that it takes: float16 values, 4-bit weights.
  bool float16 = true;
  bool int4 = true;
  // What it does not run is left to another runtime, or it depends on who runs the model.
  bool falls_back = false;
  // Operators of the default domain that it runs; empty: all but those that it lacks.
  std::vector<std::string> runs;
  std::vector<std::string> lacks;
  // Operators of com.microsoft that it runs, and that passes may make.
  std::vector<std::string> microsoft;
  // Operators of other domains that it runs, as "domain:Name".
  std::vector<std::string> others;
  // Operators that it runs under conditions, with these for people to read.
  std::map<std::string, std::string> limits;
  // Element types taken of an operator's first input that may have several, by operator ("Conv",
  // "com.microsoft:Gelu"). The entry "" is for those of the default domain that are not named. Of operators without
  // an entry nothing is known.
  std::map<std::string, std::vector<DType>> types;
  // What it runs in integers, and in which form.
  IntegerRules integer;

  bool Runs(std::string_view domain, std::string_view op_type) const;
  // False where the target is known not to take this type of the operator.
  bool Takes(std::string_view domain, std::string_view op_type, DType dtype) const;
};

// UsageError naming the targets there are.
StatusOr<Target> FindTarget(std::string_view name);
std::vector<std::string> TargetNames();

// A target's file; `name` is the file's in messages. UsageError with line and column.
StatusOr<Target> ReadTargetText(const std::string& text, const std::string& name);

}  // namespace quant
