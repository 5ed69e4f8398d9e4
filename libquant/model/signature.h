// What element types an operator takes: its schema in ONNX's registry (or ours for com.microsoft) as plain data.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/ir/dtype.h"
#include "libquant/ir/graph.h"

namespace quant {

// A formal parameter's type.
struct FormalType {
  std::string variable;        // "T", or a fixed type as ONNX writes it: "tensor(float)"
  std::vector<DType> tensors;  // element types allowed
  bool others = false;         // sequences, optionals, maps
  bool fixed = false;          // `variable` is a type
  bool heterogeneous = false;  // variadic, and the arguments' types may differ

  bool Takes(DType dtype) const;
};

struct Signature {
  std::vector<FormalType> inputs, outputs;
  bool variadic_inputs = false, variadic_outputs = false;  // the last one stands for all that follow

  // Null past the end.
  const FormalType* Input(size_t i) const { return At(inputs, variadic_inputs, i); }
  const FormalType* Output(size_t i) const { return At(outputs, variadic_outputs, i); }

 private:
  static const FormalType* At(const std::vector<FormalType>& list, bool variadic, size_t i);
};

// Of the definition that a model importing `version` of the domain uses; nullopt for an unknown operator.
std::optional<Signature> SignatureOf(std::string_view domain, const std::string& op_type, int64_t version);

// The element type of the node's first input that its definition allows several types for; kUndefined when there is no
// such input, or its type is not known.
DType MainType(const Graph& graph, const Node& node, int64_t version);

// DataType of a value that is a tensor, its constant's when inference knows nothing.
DType DTypeOfValue(const Graph& graph, ValueId v);

}  // namespace quant
