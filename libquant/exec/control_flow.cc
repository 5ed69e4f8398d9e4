#include "libquant/exec/control_flow.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "libquant/base/checked.h"
#include "libquant/ops/op_def.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

StatusOr<RegionId> BodyOf(const Node& node, std::string_view attribute) {
  const Attribute* found = node.attributes.Find(attribute);
  const auto* body = found == nullptr ? nullptr : std::get_if<BodyRef>(&found->value);
  if (body == nullptr) return DataError("there is no {}", attribute);
  return body->region;
}

StatusOr<bool> Flag(const Tensor& tensor, std::string_view what) {
  if (tensor.dtype() != DType::kBool || tensor.size() != 1) {
    return DataError("{} is {}, not one bool", what, Describe(tensor));
  }
  return tensor.data<bool>()[0];
}

Status CheckOutputs(const Graph& graph, RegionId body, size_t wanted) {
  const size_t have = graph.region(body).outputs.size();
  if (have == wanted) return OkStatus();
  return DataError("its body has {} outputs where {} belong", have, wanted);
}

Status CheckInputs(const Graph& graph, RegionId body, size_t given) {
  const size_t wanted = graph.region(body).inputs.size();
  if (given == wanted) return OkStatus();
  return DataError("its body has {} inputs where {} belong", wanted, given);
}

StatusOr<std::vector<Tensor>> RunIf(const Graph& graph, const Node& node, std::span<const Tensor* const> inputs,
                                    BodyRunner& runner) {
  ASSIGN_OR_RETURN(const bool condition, Flag(*inputs[0], "the condition"));
  ASSIGN_OR_RETURN(const RegionId body, BodyOf(node, condition ? "then_branch" : "else_branch"));
  RETURN_IF_ERROR(CheckInputs(graph, body, 0));
  RETURN_IF_ERROR(CheckOutputs(graph, body, node.outputs.size()));
  return runner.RunBody(body, {});
}

// What the iterations made for one output, to be stacked along an axis of its own.
struct Stack {
  int64_t axis = 0;
  bool reversed = false;
  int64_t count = 0;
  DType dtype = DType::kUndefined;  // of each part
  Dims dims;
  std::string first;             // described
  std::vector<std::byte> bytes;  // one part after another

  Status Add(const Tensor& part) {
    if (count == 0) {
      dtype = part.dtype();
      dims = part.dims();
      first = Describe(part);
      RETURN_IF_ERROR(ElementBytes(part).status());
    } else if (part.dims() != dims || part.dtype() != dtype) {
      return DataError("iterations made {} and {}", first, Describe(part));
    }
    bytes.insert(bytes.end(), part.bytes().begin(), part.bytes().end());
    ++count;
    return OkStatus();
  }
};

// Dims of a stack without parts: what inference knows of a part, and 0 for the rest.
Dims EmptyDims(const Value& part, int64_t axis) {
  Dims dims;
  if (part.shape) {
    for (const Dim& dim : *part.shape) dims.push_back(dim.known() ? dim.value : 0);
  }
  const int64_t at = axis < 0 ? axis + static_cast<int64_t>(dims.size()) + 1 : axis;
  dims.insert(dims.begin() + std::clamp<int64_t>(at, 0, static_cast<int64_t>(dims.size())), 0);
  return dims;
}

StatusOr<Tensor> Stacked(const Stack& stack, const Value& part) {
  if (stack.count == 0) {
    if (part.dtype == DType::kUndefined) return Unsupported("an output of no iterations whose type is not known");
    return Tensor::Allocate(part.dtype, EmptyDims(part, stack.axis));
  }
  const int64_t count = stack.count, rank = static_cast<int64_t>(stack.dims.size()) + 1;
  const int64_t axis = stack.axis < 0 ? stack.axis + rank : stack.axis;
  if (axis < 0 || axis >= rank) return DataError("axis {} of an output of rank {}", stack.axis, rank);
  Dims dims = stack.dims;
  dims.insert(dims.begin() + axis, count);
  if (!BytesFor(stack.dtype, dims)) return DataError("the output {} overflows", ToString(dims));
  Tensor out = Tensor::Allocate(stack.dtype, dims);
  int64_t outer = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= dims[static_cast<size_t>(i)];
  const auto part_bytes = static_cast<int64_t>(stack.bytes.size()) / count;
  const int64_t run = outer == 0 ? 0 : part_bytes / outer;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* from = stack.bytes.data() + (stack.reversed ? count - 1 - i : i) * part_bytes;
    for (int64_t o = 0; run > 0 && o < outer; ++o) {
      std::memcpy(out.mutable_bytes().data() + (o * count + i) * run, from + o * run, static_cast<size_t>(run));
    }
  }
  return out;
}

// Appends the stacks, whose parts are the body's last outputs.
Status AppendStacked(const Graph& graph, RegionId body, const std::vector<Stack>& stacks,
                     std::vector<Tensor>& outputs) {
  const auto& made = graph.region(body).outputs;
  for (size_t s = 0; s < stacks.size(); ++s) {
    ASSIGN_OR_RETURN(Tensor stacked, Stacked(stacks[s], graph.value(made[made.size() - stacks.size() + s])));
    outputs.push_back(std::move(stacked));
  }
  return OkStatus();
}

// A scalar, or one element of rank 1 where the body's input says so.
Tensor AsDeclared(const Tensor& scalar, const Graph& graph, RegionId body, size_t input) {
  const auto& shape = graph.value(graph.region(body).inputs[input]).shape;
  return shape && shape->size() == 1 ? scalar.Reshaped({1}) : scalar;
}

StatusOr<std::vector<Tensor>> RunLoop(const Graph& graph, const Node& node, std::span<const Tensor* const> inputs,
                                      BodyRunner& runner) {
  ASSIGN_OR_RETURN(const RegionId body, BodyOf(node, "body"));
  std::optional<int64_t> trips;
  if (!inputs.empty() && inputs[0] != nullptr) {
    if (inputs[0]->dtype() != DType::kInt64 || inputs[0]->size() != 1) {
      return DataError("the trip count is {}, not one int64", Describe(*inputs[0]));
    }
    trips = inputs[0]->data<int64_t>()[0];
  }
  bool going = true;
  if (inputs.size() > 1 && inputs[1] != nullptr) {
    ASSIGN_OR_RETURN(going, Flag(*inputs[1], "the condition"));
  }
  std::vector<Tensor> carried;
  for (size_t i = 2; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) return DataError("carried value {} is left out", i - 2);
    carried.push_back(*inputs[i]);
  }
  if (node.outputs.size() < carried.size()) {
    return DataError("it carries {} values and has {} outputs", carried.size(), node.outputs.size());
  }
  std::vector<Stack> stacks(node.outputs.size() - carried.size());
  RETURN_IF_ERROR(CheckInputs(graph, body, carried.size() + 2));
  RETURN_IF_ERROR(CheckOutputs(graph, body, 1 + carried.size() + stacks.size()));
  for (int64_t i = 0; going && (!trips || i < *trips); ++i) {
    std::vector<Tensor> given = {AsDeclared(Tensor::Scalar(i), graph, body, 0),
                                 AsDeclared(Tensor::Scalar(going), graph, body, 1)};
    given.insert(given.end(), carried.begin(), carried.end());
    carried.clear();
    ASSIGN_OR_RETURN(std::vector<Tensor> made, runner.RunBody(body, std::move(given)));
    ASSIGN_OR_RETURN(going, Flag(made[0], "the body's condition"));
    const size_t first_scan = made.size() - stacks.size();
    for (size_t k = 1; k < first_scan; ++k) carried.push_back(std::move(made[k]));
    for (size_t s = 0; s < stacks.size(); ++s) RETURN_IF_ERROR(stacks[s].Add(made[first_scan + s]));
  }
  RETURN_IF_ERROR(AppendStacked(graph, body, stacks, carried));
  return carried;
}

// One input of a Scan, taken apart along an axis.
struct Slices {
  const Tensor* tensor = nullptr;
  int64_t axis = 0;
  bool reversed = false;
  int64_t length() const { return tensor->dims()[static_cast<size_t>(axis)]; }

  StatusOr<Tensor> At(int64_t i) const {
    if (reversed) i = length() - 1 - i;
    ASSIGN_OR_RETURN(const int64_t element, ElementBytes(*tensor));
    std::vector<int64_t> strides = DenseStrides(tensor->dims());
    const int64_t base = i * strides[static_cast<size_t>(axis)];
    Dims dims = tensor->dims();
    dims.erase(dims.begin() + axis);
    strides.erase(strides.begin() + axis);
    Tensor out = Tensor::Allocate(tensor->dtype(), dims);
    StridedCopy(tensor->bytes().data(), base, dims, strides, element, out.mutable_bytes().data());
    return out;
  }
};

int64_t EntryOr0(const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 0; }

// 0 is forward, 1 backward.
Status CheckDirections(const Node& node, const char* name, size_t most) {
  const std::vector<int64_t> directions = node.attributes.Ints(name);
  if (directions.size() > most) return DataError("{} has {} entries for {}", name, directions.size(), most);
  for (int64_t d : directions) {
    if (d != 0 && d != 1) return DataError("{} holds {}, which is neither 0 nor 1", name, d);
  }
  return OkStatus();
}

StatusOr<std::vector<Slices>> ReadSlices(const Node& node, std::span<const Tensor* const> inputs) {
  const std::vector<int64_t> axes = node.attributes.Ints("scan_input_axes");
  const std::vector<int64_t> directions = node.attributes.Ints("scan_input_directions");
  std::vector<Slices> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t rank = inputs[i]->rank();
    int64_t axis = EntryOr0(axes, i);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return DataError("axis {} of a scanned input of rank {}", EntryOr0(axes, i), rank);
    out.push_back({inputs[i], axis, EntryOr0(directions, i) != 0});
    if (out[i].length() != out[0].length()) {
      return DataError("scanned inputs of lengths {} and {}", out[0].length(), out[i].length());
    }
  }
  return out;
}

StatusOr<std::vector<Tensor>> RunScan(const Graph& graph, const Node& node, std::span<const Tensor* const> inputs,
                                      BodyRunner& runner) {
  ASSIGN_OR_RETURN(const RegionId body, BodyOf(node, "body"));
  const int64_t scanned = node.attributes.Int("num_scan_inputs", 0);
  const auto given = static_cast<int64_t>(inputs.size());
  if (scanned < 1 || scanned > given) return DataError("{} of its {} inputs are scanned", scanned, given);
  for (const Tensor* t : inputs) {
    if (t == nullptr) return DataError("an input is left out");
  }
  const auto states = static_cast<size_t>(given - scanned);
  if (node.outputs.size() < states) return DataError("it has {} states and {} outputs", states, node.outputs.size());
  RETURN_IF_ERROR(CheckDirections(node, "scan_input_directions", static_cast<size_t>(scanned)));
  RETURN_IF_ERROR(CheckDirections(node, "scan_output_directions", node.outputs.size() - states));
  ASSIGN_OR_RETURN(const std::vector<Slices> slices, ReadSlices(node, inputs.subspan(states)));
  std::vector<Stack> stacks(node.outputs.size() - states);
  const std::vector<int64_t> axes = node.attributes.Ints("scan_output_axes");
  const std::vector<int64_t> directions = node.attributes.Ints("scan_output_directions");
  for (size_t s = 0; s < stacks.size(); ++s) {
    stacks[s].axis = EntryOr0(axes, s);
    stacks[s].reversed = EntryOr0(directions, s) != 0;
  }
  RETURN_IF_ERROR(CheckInputs(graph, body, inputs.size()));
  RETURN_IF_ERROR(CheckOutputs(graph, body, node.outputs.size()));
  std::vector<Tensor> state;
  for (size_t i = 0; i < states; ++i) state.push_back(*inputs[i]);
  for (int64_t i = 0; i < slices[0].length(); ++i) {
    for (const Slices& s : slices) {
      ASSIGN_OR_RETURN(Tensor slice, s.At(i));
      state.push_back(std::move(slice));
    }
    ASSIGN_OR_RETURN(std::vector<Tensor> made, runner.RunBody(body, std::move(state)));
    state.clear();
    for (size_t k = 0; k < states; ++k) state.push_back(std::move(made[k]));
    for (size_t s = 0; s < stacks.size(); ++s) RETURN_IF_ERROR(stacks[s].Add(made[states + s]));
  }
  RETURN_IF_ERROR(AppendStacked(graph, body, stacks, state));
  return state;
}

}  // namespace

StatusOr<std::vector<Tensor>> RunControlFlow(const Graph& graph, const Node& node,
                                             std::span<const Tensor* const> inputs, BodyRunner& runner) {
  if (node.op_type == "If") return RunIf(graph, node, inputs, runner);
  return node.op_type == "Loop" ? RunLoop(graph, node, inputs, runner) : RunScan(graph, node, inputs, runner);
}

}  // namespace quant
