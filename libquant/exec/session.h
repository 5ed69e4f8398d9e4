// The reference executor: runs a model on named tensors. Each tensor is freed after its last use, buffers are
// reused, nodes whose inputs are all constant are evaluated once when the session is made, and a probe sees each
// named tensor as it is made, so that calibration and layer diffs stream and never hold a whole run.
// Results are the same bytes for any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libquant/base/memory.h"
#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/ir/input_spec.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

class BufferPool;

struct SessionOptions {
  // Constant subgraphs are folded when the result is at most this large.
  int64_t max_folded_bytes = int64_t{1} << 30;
  // A run that needs more from the buffer pool at once ends in DataError instead of being killed by the system. What is
  // allocated beside the pool (stacks of a loop, tensors read from files) does not count.
  int64_t max_buffer_bytes = PhysicalMemory();
  // Where buffers come from, with a bound of its own; null: a pool of the session's own. Sessions that take turns share
  // one, so that together they need what the larger needs.
  std::shared_ptr<BufferPool> pool = nullptr;
  // So does one that runs bodies of If, Loop and Scan more often, for callers that don't trust a model: a trip count
  // may be anything.
  int64_t max_body_runs = std::numeric_limits<int64_t>::max();
};

// What a caller may see of a run.
struct RunHooks {
  // Sees a value's name and tensor, in execution order. An error stops the run. The tensor may be kept; one that is
  // not kept costs no memory beyond its time in the run.
  using Probe = std::function<Status(const std::string& name, const Tensor& tensor)>;
  Probe probe = nullptr;
  // The names that the probe sees; null: all. Values that nobody wants to see may never be made: operators that follow
  // one another element by element are done in one go.
  std::function<bool(const std::string& name)> chosen = nullptr;
  // Called after a node has run, with those after it that were done with it. The time is theirs alone: without the
  // nodes of their bodies, which are timed themselves, and without the probe.
  std::function<void(std::span<const NodeId> nodes, double seconds)> timed = nullptr;
};

class Session {
 public:
  // Unsupported, naming every operator without a kernel, when there is one. The model must outlive the session.
  static StatusOr<std::unique_ptr<Session>> Create(const Model& model, SessionOptions options = {});
  virtual ~Session() = default;

  // Outputs in the model's order. DataError when a feed is missing, unknown, or of another dtype, rank or dim than
  // the model says. A kernel's error names node, operator, and its inputs' dtypes and dims.
  virtual StatusOr<NamedTensors> Run(const NamedTensors& feeds, const RunHooks& hooks = {}) = 0;
};

// Operators of the model that have no kernel at its opset: "Foo (ai.onnx 21)", sorted, unique.
std::vector<std::string> OpsWithoutKernel(const Model& model);

// The inputs a caller must feed (graph inputs that are no initializers), with the bound of those that are followed
// to a table lookup.
std::vector<InputSpec> RequiredInputs(const Model& model);

}  // namespace quant
