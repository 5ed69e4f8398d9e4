// A sample or a run's answers: tensors by name, in order.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libquant/ir/tensor.h"

namespace quant {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

inline const Tensor* FindTensor(const NamedTensors& tensors, std::string_view name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

}  // namespace quant
