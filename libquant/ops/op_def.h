// An operator in one place: kernel, quantization role, exactness, and a schema where ONNX has none.
// One file per operator or tight family defines `const OpDef& FooOp()`; one line in ops.def lists it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/attribute.h"
#include "libquant/ir/tensor.h"

namespace quant {

// What a kernel sees: tensors and attributes, never the graph.
class KernelContext {
 public:
  using Allocator = std::function<std::shared_ptr<Buffer>(int64_t bytes)>;
  // `inputs` hold null for an optional input left out; `wanted[i]` says whether anyone reads output i.
  KernelContext(const Attributes& attributes, int64_t version, std::span<const Tensor* const> inputs,
                std::span<const bool> wanted, const Allocator& allocator)
      : attributes_(attributes),
        version_(version),
        inputs_(inputs),
        wanted_(wanted),
        allocator_(allocator),
        outputs_(wanted.size()) {}

  const Attributes& attributes() const { return attributes_; }
  // The opset version of the operator's domain that the model imports.
  int64_t version() const { return version_; }

  int input_count() const { return static_cast<int>(inputs_.size()); }
  // Null when the optional input is left out, also past the end. Always owned.
  const Tensor* input(int i) const { return i < input_count() ? inputs_[static_cast<size_t>(i)] : nullptr; }
  // A required input; the session has checked that it is there (OpDef::min_inputs).
  const Tensor& in(int i) const { return *inputs_[static_cast<size_t>(i)]; }

  int output_count() const { return static_cast<int>(wanted_.size()); }
  bool wanted(int i) const { return i < output_count() && wanted_[static_cast<size_t>(i)]; }
  // Makes output i, uninitialised, from the session's buffer pool. DataError when dims are negative or overflow.
  StatusOr<Tensor*> Allocate(int i, DType dtype, Dims dims);
  // Makes output i an existing tensor, say an input under other dims: no data moves.
  void Set(int i, Tensor tensor) { outputs_[static_cast<size_t>(i)] = std::move(tensor); }
  // A scratch buffer from the same pool.
  std::shared_ptr<Buffer> Scratch(int64_t bytes) const { return allocator_(bytes); }

  std::vector<Tensor>& outputs() { return outputs_; }

 private:
  const Attributes& attributes_;
  int64_t version_;
  std::span<const Tensor* const> inputs_;
  std::span<const bool> wanted_;
  const Allocator& allocator_;
  std::vector<Tensor> outputs_;
};

// Quantization roles. Every operator states one; there is no default.
struct Weighted {
  int activation;
  int weight;
  int bias;  // -1: none
  // Axis of the output channels in a weight of this rank, and the axis summed over; a Conv's reduction is all
  // axes but the channel's, and then reduction_axis is null.
  int64_t (*channel_axis)(const Attributes& attributes, int64_t weight_rank);
  int64_t (*reduction_axis)(const Attributes& attributes, int64_t weight_rank);
  bool on_request = false;  // quantized only when the user names the operator: no runtime makes use of the codes
};
// LSTM, GRU, RNN: weights [directions, gates, inputs], summed over the last axis; quantized on request only.
struct Recurrent {
  int activation;
  std::array<int, 2> weights;
};
struct PassThrough {};      // moves elements: Reshape, Transpose
struct OrderPreserving {};  // picks elements: MaxPool
struct SharedScale {};      // inputs and output share one scale: Concat
struct Requantize {};       // new range: Add, Mul
struct FloatOnly {};        // LayerNormalization, Softmax
struct Quantizer {};        // QuantizeLinear, DequantizeLinear, ...
struct Control {};          // If, Loop, Shape, and all that computes on shapes or indices
using Role = std::variant<Weighted, Recurrent, PassThrough, OrderPreserving, SharedScale, Requantize, FloatOnly,
                          Quantizer, Control>;

// How far a kernel may be from another runtime's: not at all; by rounding of sums; by that and libm.
enum class Exactness { kExact, kRounding, kTranscendental };

// Input `indices` holds indices into axis `axis_attribute` (default 0) of input `table`: Gather, embeddings.
// Random samples keep within it.
struct IndexInput {
  int indices;
  int table;
  std::string_view axis_attribute;
};

// --- Schemas of operators that ONNX doesn't define, as plain rows; `model` registers them with ONNX ---

struct TypeShape {
  DType dtype = DType::kUndefined;
  std::optional<Shape> shape;
};
struct InferContext {
  const Attributes& attributes;
  std::vector<TypeShape> inputs;  // undefined dtype: left out or unknown
  std::vector<TypeShape> outputs;
};
struct FormalParameter {
  std::string name;
  std::string type;  // the name of one of SchemaRow::types, or a fixed type as ONNX writes it: "tensor(uint8)"
  bool optional = false;
  bool variadic = false;
};
enum class AttributeKind { kInt, kFloat, kString, kInts, kFloats };
struct AttributeRow {
  std::string name;
  AttributeKind kind;
  bool required = false;
};
struct TypeRow {
  std::string name;
  std::vector<std::string> allowed;  // "tensor(float)", ...
};
struct SchemaRow {
  int since_version = 1;
  std::string doc;
  std::vector<FormalParameter> inputs;
  std::vector<FormalParameter> outputs;
  std::vector<AttributeRow> attributes = {};
  std::vector<TypeRow> types;
  void (*infer)(InferContext& context) = nullptr;
};

struct OpDef {
  std::string_view name;
  std::string_view domain = "";
  // Opset versions at which the definition changed and that the kernel handles, ascending. A model's opset below
  // the first has no kernel here.
  std::vector<int64_t> since;
  int min_inputs = 1;
  Status (*eval)(KernelContext& context) = nullptr;
  Role role;
  Exactness exactness;
  std::optional<IndexInput> index_input = std::nullopt;
  const SchemaRow* schema = nullptr;  // of operators that ONNX doesn't define
  std::string_view summary = "";      // one line for docs/ops.md
};

// All operators, in the order of ops.def.
const std::vector<const OpDef*>& AllOps();
// The operator, or null. "ai.onnx" is the same domain as "".
const OpDef* FindOp(std::string_view domain, std::string_view op_type);

}  // namespace quant
