// The model that a tool writes: -o, --external-data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libquant/model/write.h"
#include "libquant/report/json.h"
#include "tools/args.h"

namespace quant {

class OutputArgs {
 public:
  // In the group "Output". `unless` ends the help of -o: "needed unless --plan is given".
  void Declare(Args& args, const std::string& unless);
  const std::optional<std::string>& path() const { return output_; }
  // The files that would be written; none without -o.
  std::vector<std::string> Files() const;
  // Checks the model and writes it. `doing` heads the line of progress. BugError when the model is not valid.
  StatusOr<WriteResult> Write(const Model& model, const std::string& doing, bool quiet) const;
  // Writes the model where -o is given, and adds what was written to a tool's text and JSON.
  Status WriteAndReport(const Model& model, bool quiet, std::string& text, Json& json) const;

 private:
  std::optional<std::string> output_;
  std::string external_data_ = "auto";
};

}  // namespace quant
