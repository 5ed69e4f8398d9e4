// The constants of a graph in memory: read or produced when first asked for, dropped when their last reader says so.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

class ConstantStore {
 public:
  explicit ConstantStore(const Graph& graph);

  // True for a constant of the graph and for what was put in.
  bool Has(ValueId v) const;
  // Owned. Tensors of one producer (codes, scales, zero points) are made in one go.
  StatusOr<Tensor> Get(ValueId v);
  void Put(ValueId v, Tensor tensor) { made_[v] = std::move(tensor); }
  void Drop(ValueId v) { made_.erase(v); }
  void Clear() { made_.clear(); }

 private:
  Status Produce(const TensorProducer* producer);
  const Graph& graph_;
  std::unordered_map<ValueId, Tensor> made_;
  std::map<const TensorProducer*, std::vector<ValueId>> siblings_;
};

}  // namespace quant
