// Puts payloads into their places: copied from memory and files, or produced, each exactly once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libquant/base/file.h"
#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

// One place that a payload's bytes go to.
struct Destination {
  PendingFile* file = nullptr;
  int64_t offset = 0;
};

// Tensors that share one payload: made once, written to every destination.
struct PayloadGroup {
  Tensor tensor;
  std::vector<Destination> destinations;
};

// Which payload each tensor has: equal numbers for tensors that share one, counted from 0 in order of first sight.
std::vector<size_t> GroupPayloads(const std::vector<Tensor>& tensors);

// Writes all groups in order. A producer runs once, when its first output is due, and writes all of its outputs then;
// outputs that nobody asked for are thrown away. BugError when a payload's bytes did not arrive exactly once.
Status WritePayloads(const std::vector<PayloadGroup>& groups,
                     const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace quant
