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

// What a node's kernel keeps from call to call: constant inputs in the order it reads them, say.
struct NodeMemory {
  std::shared_ptr<const void> kept;
};

// What follows a node element by element, done while its results are still in cache: changes `count` elements of the
// output in place, the first being element `begin` of the whole.
using Tail = std::function<void(float* data, int64_t begin, int64_t count)>;
// The tail of a float32 output of these dims; an empty function when there is none.
using TailMaker = std::function<Tail(const Dims& dims)>;

// What a kernel is called with; all it refers to outlives the call.
struct KernelCall {
  const Attributes& attributes;
  int64_t version = 0;                    // of the operator's domain that the model imports
  std::span<const Tensor* const> inputs;  // null for an optional input left out
  std::span<const bool> wanted;           // per output: does anyone read it?
  // Per input; an empty span says no for all.
  std::span<const bool> constant = {};   // the same tensor in every call of this node
  std::span<const bool> last_read = {};  // nobody reads the value after this call
  NodeMemory* memory = nullptr;
  const TailMaker* tail = nullptr;  // for operators that say so (OpDef::applies_tail)
};

// What a kernel sees: tensors and attributes, never the graph.
class KernelContext {
 public:
  using Allocator = std::function<std::shared_ptr<Buffer>(int64_t bytes)>;
  KernelContext(const KernelCall& call, const Allocator& allocator)
      : call_(call), allocator_(allocator), outputs_(call.wanted.size()) {}

  const Attributes& attributes() const { return call_.attributes; }
  // The opset version of the operator's domain that the model imports.
  int64_t version() const { return call_.version; }

  int input_count() const { return static_cast<int>(call_.inputs.size()); }
  // Null when the optional input is left out, also past the end. Always owned.
  const Tensor* input(int i) const { return i < input_count() ? call_.inputs[static_cast<size_t>(i)] : nullptr; }
  // A required input; the session has checked that it is there (OpDef::min_inputs).
  const Tensor& in(int i) const { return *call_.inputs[static_cast<size_t>(i)]; }
  // Whether input i is the same tensor in every call of this node.
  bool is_constant(int i) const { return Says(call_.constant, i); }

  int output_count() const { return static_cast<int>(call_.wanted.size()); }
  bool wanted(int i) const { return i < output_count() && call_.wanted[static_cast<size_t>(i)]; }
  // Makes output i, uninitialised, from the session's buffer pool. DataError when dims are negative or overflow.
  StatusOr<Tensor*> Allocate(int i, DType dtype, Dims dims);
  // The same, in the memory of the first input that nobody needs any more and that has this dtype and these dims. For
  // kernels that read no element of an input after writing the output's element of the same index.
  StatusOr<Tensor*> AllocateOverInput(int i, DType dtype, Dims dims);
  // Makes output i an existing tensor, say an input under other dims: no data moves.
  void Set(int i, Tensor tensor) { outputs_[static_cast<size_t>(i)] = std::move(tensor); }
  // A scratch buffer from the same pool.
  std::shared_ptr<Buffer> Scratch(int64_t bytes) const { return allocator_(bytes); }

  // What `make` (returning a T) made in this node's first call, for what depends on constant inputs alone. A node
  // keeps one thing.
  template <typename T, typename Make>
  std::shared_ptr<const T> Kept(const Make& make) const {
    if (call_.memory == nullptr) return std::make_shared<const T>(make());
    if (call_.memory->kept == nullptr) call_.memory->kept = std::make_shared<const T>(make());
    return std::static_pointer_cast<const T>(call_.memory->kept);
  }

  // What is to be done to each element of a float32 output 0 of these dims, once; often empty. A kernel that asks does
  // it.
  Tail TailFor(const Dims& dims) const { return call_.tail == nullptr ? Tail() : (*call_.tail)(dims); }

  std::vector<Tensor>& outputs() { return outputs_; }

 private:
  static bool Says(std::span<const bool> flags, int i) {
    return static_cast<size_t>(i) < flags.size() && flags[static_cast<size_t>(i)];
  }
  const KernelCall call_;
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
  // The operator as a Tail on its input `through`, of these dims and float32; an empty function when it is none with
  // these attributes and inputs. inputs[through] is null; the others that the node has are known.
  Tail (*as_tail)(const KernelCall& call, int through, const Dims& dims) = nullptr;
  bool takes_lists = false;   // inputs and outputs may be lists of tensors or nothing (Tensor::OfList, Nothing)
  bool applies_tail = false;  // the kernel asks for KernelContext::TailFor
};

// All operators, in the order of ops.def.
const std::vector<const OpDef*>& AllOps();
// The operator, or null. "ai.onnx" is the same domain as "".
const OpDef* FindOp(std::string_view domain, std::string_view op_type);

}  // namespace quant
