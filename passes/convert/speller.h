// Spells a node out in basic operators, as a GraphEdit: nodes in order, then Finish.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {

class Speller {
 public:
  // Of `root`, whose output 0 the result stands for. Its input `typed` has the element type that type() starts with.
  Speller(const PassContext& context, NodeId root, size_t typed = 0);

  // The element type that numbers are made in and that Op gives its outputs.
  DType type() const { return type_; }
  ValueRef Input(size_t i) const { return ValueRef::Of(InputOf(node_, i)); }
  bool HasInput(size_t i) const { return InputOf(node_, i) != kNoValue; }

  ValueRef Op(const std::string& op_type, std::vector<ValueRef> inputs, Attributes attributes = {});
  // One whose output is of another type.
  ValueRef OpOf(DType type, const std::string& op_type, std::vector<ValueRef> inputs, Attributes attributes = {});
  // Parts of these lengths along an axis; lengths are an input from opset 13.
  std::vector<ValueRef> Split(ValueRef x, int64_t axis, const std::vector<int64_t>& lengths);
  // Axes are an input from opset 13. `type` is x's.
  ValueRef Unsqueeze(ValueRef x, DType type, const std::vector<int64_t>& axes);
  ValueRef Reshape(ValueRef x, const std::vector<int64_t>& dims);
  ValueRef Transpose(ValueRef x, const std::vector<int64_t>& perm);
  ValueRef Concat(const std::vector<ValueRef>& parts, int64_t axis);
  // Dimension `axis` of a value, an int64 scalar.
  ValueRef Length(ValueRef x, int64_t axis);
  // Entry `index` of axis 0, which goes.
  ValueRef Entry(ValueRef x, int64_t index);
  // Integers from `begin` to before `end`, int64 scalars.
  ValueRef Range(ValueRef begin, ValueRef end);
  ValueRef Int(int64_t value);    // a scalar
  ValueRef Int32(int32_t value);  // the same as int32
  ValueRef Number(double value);  // a scalar of type()
  ValueRef Ints(const std::string& hint, const std::vector<int64_t>& values);
  // Changes type() as well; nothing when it is the type already.
  ValueRef CastTo(ValueRef x, DType type);
  // With the axis kept; axes are an input from opset 18.
  ValueRef ReduceMean(ValueRef x, const std::vector<int64_t>& axes);
  // The mean taken off, and over the root of the variance: (x - mean) / sqrt(var + epsilon).
  ValueRef Standardized(ValueRef x, const std::vector<int64_t>& axes, float epsilon);
  // x / sqrt(mean(x^2) + epsilon).
  ValueRef OverRms(ValueRef x, const std::vector<int64_t>& axes, float epsilon);

  // The result in the place of output 0, other outputs given as (index, value); the root goes.
  // nullopt when the model gives the node's output another type than its first input has.
  std::optional<GraphEdit> Finish(ValueRef result, std::initializer_list<std::pair<size_t, ValueRef>> others = {});

 private:
  const PassContext& context_;
  const Node& node_;
  NodeId root_;
  DType type_;
  GraphEdit edit_;
};

// Axes from `axis` to the last, as counts from the back where it is one; nullopt when that takes a rank that is not
// known.
std::optional<std::vector<int64_t>> AxesFrom(const Graph& graph, ValueId x, int64_t axis);
// The type that a normalization computes in: float32 for float16, bfloat16 and float32, as stash_type 1 asks; nullopt
// for others, also when the type is not known.
std::optional<DType> StashType(const PassContext& context, const Node& node);
// What a normalization over the last axes is spelled out with: the axes and the type that it computes in.
struct NormOverLastAxes {
  std::vector<int64_t> axes;
  DType stash;
  float epsilon;
};
// Of LayerNormalization and RMSNormalization; nullopt, with a near miss, where one of these is not known, another type
// is asked for or `statistics`, which come after the result, are read.
std::optional<NormOverLastAxes> ReadNorm(const PassContext& context, const Node& node, std::string_view statistics);
// True when an output besides the first `known` ones is read.
bool ReadsMore(const Graph& graph, const Node& node, size_t known);

}  // namespace quant
