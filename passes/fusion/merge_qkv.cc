// Three products of one input with constant weights, as attention makes queries, keys and values, become one.
//
//   x ─┬─ MatMul(wq) ─ [Add(bq)] ─ q                                                        ┌─ q
//      ├─ MatMul(wk) ─ [Add(bk)] ─ k      =>      x ─ MatMul(wq wk wv) ─ [Add] ─ Split ─┼─ k
//      └─ MatMul(wv) ─ [Add(bv)] ─ v                                                        └─ v
//
// The weights are matrices of one type that nothing else reads, so that they go; the new one reads them row by row when
// it is written. Biases go along when all three have one: a constant vector, and the sum the product's only reader.
#include <algorithm>
#include <array>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

constexpr size_t kProducts = 3;
constexpr int64_t kBlockBytes = int64_t{1} << 20;

// Matrices of as many rows, side by side.
class SideBySide : public TensorProducer {
 public:
  explicit SideBySide(std::vector<Tensor> parts) : parts_(std::move(parts)) {}
  int output_count() const override { return 1; }
  Status Produce(std::span<ByteSink* const> sinks) const override {
    std::vector<Tensor> parts = parts_;
    for (Tensor& part : parts) {
      if (part.deferred() == nullptr) continue;
      ASSIGN_OR_RETURN(part, part.Materialize());
    }
    const int64_t rows = parts[0].dims()[0];
    int64_t width = 0;
    for (const Tensor& part : parts) width += part.byte_size() / rows;
    const int64_t step = std::max<int64_t>(1, kBlockBytes / width);
    std::vector<std::byte> block, piece;
    for (int64_t row = 0; row < rows; row += step) {
      const int64_t count = std::min(step, rows - row);
      block.resize(static_cast<size_t>(count * width));
      int64_t column = 0;
      for (const Tensor& part : parts) {
        const int64_t bytes = part.byte_size() / rows;
        piece.resize(static_cast<size_t>(count * bytes));
        RETURN_IF_ERROR(part.ReadBytes(row * bytes, piece));
        for (int64_t r = 0; r < count; ++r) {
          std::copy_n(piece.begin() + r * bytes, bytes, block.begin() + r * width + column);
        }
        column += bytes;
      }
      RETURN_IF_ERROR(sinks[0]->Write(row * width, block));
    }
    return OkStatus();
  }

 private:
  std::vector<Tensor> parts_;
};

Tensor Joined(const Graph& graph, const std::vector<ValueId>& weights) {
  std::vector<Tensor> parts;
  Dims dims = {1, 0};
  for (ValueId w : weights) {
    Tensor part = *graph.value(w).constant;
    if (part.rank() == 1) part = part.Reshaped({1, part.size()});
    dims = {part.dims()[0], dims[1] + part.dims()[1]};
    parts.push_back(std::move(part));
  }
  const DType dtype = parts[0].dtype();
  const bool vectors = graph.value(weights[0]).constant->rank() == 1;
  Tensor joined = Tensor::FromProducer(dtype, dims, {std::make_shared<SideBySide>(std::move(parts)), 0});
  return vectors ? joined.Reshaped({dims[1]}) : joined;
}

// MatMul of x with a matrix of its own.
bool IsProduct(const Graph& graph, const Node& node, ValueId x) {
  const ValueId w = InputOf(node, 1);
  const Tensor* weight = ConstantOf(graph, w);
  return IsOp(node, "MatMul") && InputOf(node, 0) == x && weight != nullptr && weight->rank() == 2 &&
         weight->size() > 0 && InfoOf(weight->dtype()).bits % 8 == 0 && HasOneReader(graph, w);
}

// The products of x in this region, in order, if they are as many as attention has.
std::vector<NodeId> ProductsOf(const Graph& graph, ValueId x, RegionId region) {
  std::vector<NodeId> products;
  for (const Use& use : graph.value(x).uses) {
    if (use.node == kNoNode || use.region != region || !IsProduct(graph, graph.node(use.node), x)) continue;
    if (std::find(products.begin(), products.end(), use.node) == products.end()) products.push_back(use.node);
  }
  std::vector<NodeId> ordered;
  if (products.size() != kProducts) return ordered;
  for (NodeId n : graph.region(region).nodes) {
    if (std::find(products.begin(), products.end(), n) != products.end()) ordered.push_back(n);
  }
  return ordered;
}

// The vector that the only reader of the product adds.
ValueId BiasOf(const Graph& graph, NodeId product) {
  const NodeId reader = OnlyReader(graph, graph.node(product).outputs[0]);
  if (reader == kNoNode || !IsOp(graph.node(reader), "Add")) return kNoValue;
  if (graph.node(reader).region != graph.node(product).region) return kNoValue;
  const auto split = SplitConstant(graph, graph.node(reader));
  const Dims wanted = {ConstantOf(graph, graph.node(product).inputs[1])->dims()[1]};
  return split && graph.value(split->second).constant->dims() == wanted ? split->second : kNoValue;
}

struct Merge {
  std::vector<NodeId> products;
  std::vector<ValueId> weights, biases, results;
  std::vector<int64_t> lengths;
};

Merge Collect(const Graph& graph, const std::vector<NodeId>& products) {
  Merge merge;
  merge.products = products;
  for (NodeId n : products) {
    merge.weights.push_back(graph.node(n).inputs[1]);
    merge.lengths.push_back(graph.value(merge.weights.back()).constant->dims()[1]);
    if (const ValueId bias = BiasOf(graph, n); bias != kNoValue) merge.biases.push_back(bias);
  }
  const bool biased = merge.biases.size() == products.size();
  if (!biased) merge.biases.clear();
  for (NodeId n : products) {
    const ValueId product = graph.node(n).outputs[0];
    merge.results.push_back(biased ? graph.node(OnlyReader(graph, product)).outputs[0] : product);
  }
  return merge;
}

std::optional<Shape> Widened(const Value& value, int64_t length) {
  std::optional<Shape> shape = value.shape;
  if (shape && !shape->empty()) shape->back() = {length, ""};
  return shape;
}

GraphEdit Rewrite(const PassContext& context, const Merge& merge) {
  const Graph& graph = context.graph();
  GraphEdit edit(merge.products[0]);
  const Value& first = graph.value(merge.results[0]);
  int64_t total = 0;
  for (int64_t length : merge.lengths) total += length;
  const std::string& name = graph.node(merge.products[0]).name;
  const ValueRef weight =
      edit.AddConstant(graph.value(merge.weights[0]).name + "_merged", Joined(graph, merge.weights));
  auto matmul = NewNodeOf("", "MatMul", {ValueRef::Of(graph.node(merge.products[0]).inputs[0]), weight});
  matmul.name_hint = name + "_merged";
  ValueRef sum = edit.AddNode(std::move(matmul), first.dtype, Widened(first, total));
  if (!merge.biases.empty()) {
    const ValueRef bias = edit.AddConstant(graph.value(merge.biases[0]).name + "_merged", Joined(graph, merge.biases));
    auto add = NewNodeOf("", "Add", {sum, bias});
    add.name_hint = name + "_merged_bias";
    sum = edit.AddNode(std::move(add), first.dtype, Widened(first, total));
  }
  auto split = NewNodeOf("", "Split", {sum});
  split.name_hint = name + "_split";
  split.attributes.Set("axis", int64_t{-1});
  if (context.opset() >= 13) {
    const Dims dims = {static_cast<int64_t>(kProducts)};
    split.inputs.push_back(edit.AddConstant(split.name_hint + "_lengths", Tensor::Of<int64_t>(dims, merge.lengths)));
  } else {
    split.attributes.Set("split", merge.lengths);
  }
  std::vector<std::pair<DType, std::optional<Shape>>> types;
  for (ValueId v : merge.results) types.emplace_back(graph.value(v).dtype, graph.value(v).shape);
  const auto parts = edit.AddNode(std::move(split), types);
  for (size_t i = 0; i < kProducts; ++i) edit.Replace(merge.results[i], parts[i]);
  return edit;
}

std::optional<GraphEdit> Fuse(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (!IsProduct(graph, node, InputOf(node, 0))) return std::nullopt;
  const auto products = ProductsOf(graph, node.inputs[0], node.region);
  if (products.size() != kProducts || products[0] != root) return std::nullopt;
  const Merge merge = Collect(graph, products);
  const auto type_of = [&](ValueId v) { return graph.value(v).constant->dtype(); };
  const auto same = [&](const std::vector<ValueId>& all) {
    return std::all_of(all.begin(), all.end(), [&](ValueId v) { return type_of(v) == type_of(merge.weights[0]); });
  };
  if (!same(merge.weights) || !same(merge.biases)) return context.Miss("its weights are of different types");
  if (graph.value(node.outputs[0]).dtype == DType::kUndefined) return context.Miss("its type is not known");
  if (!context.MayMake("", "Split")) return context.Miss("the target has no Split");
  return Rewrite(context, merge);
}

}  // namespace

const Pass& MergeQkvPass() {
  static const Pass pass = {.name = "merge-qkv",
                            .summary = "Three products of one input with weights of their own become one and a Split",
                            .roots = {"MatMul"},
                            .rule = Fuse};
  return pass;
}

}  // namespace quant
