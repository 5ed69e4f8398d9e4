// A runtime that a model is made for: what it runs and what it takes. Targets are data, a file each in configs/targets,
// built into the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"

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
  // Operators of com.microsoft that it runs, and that passes may make.
  std::vector<std::string> microsoft;
  // Operators of the default domain that it does not run.
  std::vector<std::string> lacks;

  // Operators of domains that are neither the default nor com.microsoft run nowhere.
  bool Runs(std::string_view domain, std::string_view op_type) const;
};

// UsageError naming the targets there are.
StatusOr<Target> FindTarget(std::string_view name);
std::vector<std::string> TargetNames();

// A target's file; `name` is the file's in messages. UsageError with line and column.
StatusOr<Target> ReadTargetText(const std::string& text, const std::string& name);

}  // namespace quant
