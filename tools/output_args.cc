#include "tools/output_args.h"

#include "libquant/model/check.h"
#include "tools/progress.h"
#include "tools/units.h"

namespace quant {

void OutputArgs::Declare(Args& args, const std::string& unless) {
  args.Group("Output");
  args.Value("-o,--output", "OUT", &output_, "the model to write; " + unless);
  args.InUsage();
  args.Choice("--external-data", {"auto", "never", "always"}, &external_data_,
              "weights in a file OUT.data beside the model: auto, the default, when it would pass 1 GiB");
}

std::vector<std::string> OutputArgs::Files() const {
  if (!output_) return {};
  if (external_data_ == "never") return {*output_};
  return {*output_, *output_ + ".data"};
}

StatusOr<WriteResult> OutputArgs::Write(const Model& model, const std::string& doing, bool quiet) const {
  const Status checked = CheckModel(model);
  if (!checked.ok()) return BugError("the model made is not valid: {}", Message(checked));
  WriteOptions write;
  write.external_data = external_data_ == "always"  ? ExternalData::kAlways
                        : external_data_ == "never" ? ExternalData::kNever
                                                    : ExternalData::kAuto;
  Progress progress(doing, quiet);
  write.progress = [&progress](int64_t done, int64_t total) { progress.Update(done, total); };
  return WriteModel(model, *output_, write);
}

Status OutputArgs::WriteAndReport(const Model& model, bool quiet, std::string& text, Json& json) const {
  if (!output_) return OkStatus();
  ASSIGN_OR_RETURN(const WriteResult written, Write(model, "writing", quiet));
  const int64_t bytes = written.model_bytes + written.data_bytes;
  text += fmt::format("written: {}, {}\n", *output_, Bytes(bytes));
  json.Set("bytes", bytes);
  return OkStatus();
}

}  // namespace quant
