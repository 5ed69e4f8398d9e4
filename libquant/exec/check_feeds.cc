#include "libquant/exec/check_feeds.h"

#include <algorithm>
#include <map>

namespace quant {
namespace {

using Sizes = std::map<std::string, std::pair<int64_t, std::string>>;  // of symbols, with the input that said so first

Status CheckFeed(const InputSpec& spec, const Tensor& tensor, Sizes& sizes) {
  if (spec.dtype != DType::kUndefined && tensor.dtype() != spec.dtype) {
    return DataError("input {} wants {}, the sample has {}", spec.name, NameOf(spec.dtype), NameOf(tensor.dtype()));
  }
  if (!spec.shape) return OkStatus();
  const auto mismatch = [&] {
    return DataError("input {} wants {}, the sample has {}", spec.name, ToString(*spec.shape), ToString(tensor.dims()));
  };
  if (spec.shape->size() != tensor.dims().size()) return mismatch();
  for (size_t i = 0; i < tensor.dims().size(); ++i) {
    const Dim& dim = (*spec.shape)[i];
    const int64_t got = tensor.dims()[i];
    if (dim.known() && dim.value != got) return mismatch();
    if (dim.known() || dim.symbol.empty()) continue;
    const auto [it, fresh] = sizes.try_emplace(dim.symbol, got, spec.name);
    if (!fresh && it->second.first != got) {
      return DataError("dimension {} is {} in input {} but {} in input {}", dim.symbol, it->second.first,
                       it->second.second, got, spec.name);
    }
  }
  return OkStatus();
}

}  // namespace

Status CheckFeeds(const Graph& graph, const std::vector<InputSpec>& inputs, const NamedTensors& feeds) {
  std::string wanted;
  for (const InputSpec& spec : inputs) wanted += (wanted.empty() ? "" : ", ") + spec.name;
  const auto& graph_inputs = graph.main().inputs;
  for (const auto& feed : feeds) {
    const std::string& name = feed.first;
    const bool known = std::any_of(inputs.begin(), inputs.end(), [&](const InputSpec& s) { return s.name == name; });
    if (known) continue;
    const bool has_value =
        std::any_of(graph_inputs.begin(), graph_inputs.end(), [&](ValueId v) { return graph.value(v).name == name; });
    if (has_value) return DataError("input {} has its value in the model and takes no other; feed {}", name, wanted);
    return DataError("the model has no input {}; it wants {}", name, wanted);
  }
  Sizes sizes;
  for (const InputSpec& spec : inputs) {
    const Tensor* tensor = FindTensor(feeds, spec.name);
    if (tensor == nullptr) return DataError("input {} is not fed; the model wants {}", spec.name, wanted);
    RETURN_IF_ERROR(CheckFeed(spec, *tensor, sizes));
  }
  return OkStatus();
}

}  // namespace quant
