// One tool of the `nibble` executable. tools.def lists them, a line each; each file NAME.cc defines
// `std::unique_ptr<Tool> MakeNAME()`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"
#include "tools/args.h"

namespace quant {

struct ToolInfo {
  std::string_view name;
  std::string_view summary;  // one line for `nibble --help`
  std::string_view description;
  std::vector<std::string_view> examples;  // whole command lines; a line that starts with # comments the next
};

class Tool {
 public:
  virtual ~Tool() = default;
  virtual ToolInfo Info() const = 0;
  virtual void Declare(Args& args) = 0;
  // The status says the exit code.
  virtual Status Run(const Args& args) = 0;
};

std::string ToolHelp(const ToolInfo& info, const Args& args);

}  // namespace quant
