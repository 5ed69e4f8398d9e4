#include <algorithm>

#include "libquant/data/fit_inputs.h"
#include "libquant/data/sample_folders.h"

namespace quant {
namespace {

class TestDataSource : public SampleSource {
 public:
  TestDataSource(std::vector<std::string> folders, std::vector<InputSpec> inputs, TensorFileReader reader)
      : folders_(std::move(folders)), inputs_(std::move(inputs)), reader_(std::move(reader)) {}
  int64_t count() const override { return static_cast<int64_t>(folders_.size()); }

  StatusOr<NamedTensors> Load(int64_t i) override {
    const std::string& folder = folders_[static_cast<size_t>(i)];
    ASSIGN_OR_RETURN(NamedTensors found, ReadAll(folder, false));
    const bool by_name = std::all_of(found.begin(), found.end(), [&](const auto& f) {
      return std::any_of(inputs_.begin(), inputs_.end(), [&](const InputSpec& s) { return s.name == f.first; });
    });
    if (!by_name && found.size() == inputs_.size()) {
      for (size_t n = 0; n < found.size(); ++n) found[n].first = inputs_[n].name;
    }
    std::vector<std::string> names;
    for (const auto& [name, tensor] : found) names.push_back(name);
    RETURN_IF_ERROR(FitNames(folder, names, inputs_));
    NamedTensors out;
    for (const InputSpec& input : inputs_) {
      const Tensor& tensor = *FindTensor(found, input.name);
      const std::string what = fmt::format("input {} in {}", input.name, folder);
      ASSIGN_OR_RETURN(const Fit fit, FitArray(what, tensor.dtype(), tensor.dims(), input));
      if (fit == Fit::kRows && (*input.shape)[0].known()) {
        return DataError("{} is {}; the model wants {}", what, Describe(tensor), ToString(*input.shape));
      }
      out.emplace_back(input.name, tensor);
    }
    return out;
  }

  StatusOr<NamedTensors> LoadExpected(int64_t i) override { return ReadAll(folders_[static_cast<size_t>(i)], true); }

 private:
  StatusOr<NamedTensors> ReadAll(const std::string& folder, bool outputs) const {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                     NumberedEntries(folder, outputs ? "output_" : "input_", ".pb"));
    NamedTensors out;
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(auto named, reader_(path, {outputs, out.size()}));
      StatusOr<Tensor> tensor = named.second.Materialize();
      if (!tensor.ok()) return WithContext(tensor.status(), path);
      out.emplace_back(std::move(named.first), *std::move(tensor));
    }
    return out;
  }

  std::vector<std::string> folders_;
  std::vector<InputSpec> inputs_;
  TensorFileReader reader_;
};

}  // namespace

StatusOr<std::unique_ptr<SampleSource>> TestDataSets(std::vector<std::string> folders, std::vector<InputSpec> inputs,
                                                     TensorFileReader reader) {
  if (!reader) return BugError("no reader of tensor files was given");
  return std::unique_ptr<SampleSource>(
      std::make_unique<TestDataSource>(std::move(folders), std::move(inputs), std::move(reader)));
}

}  // namespace quant
