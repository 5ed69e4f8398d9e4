#include "passes/fusion/causal_mask.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/match.h"

namespace quant {
namespace {

constexpr int kMostDeep = 32;
constexpr int64_t kMostElements = int64_t{1} << 24;

// A number of rows as a * queries + b * keys + c.
struct Count {
  int64_t queries = 0, keys = 0, number = 0;
  bool operator==(const Count&) const = default;
};

Count operator-(const Count& a, const Count& b) {
  return {a.queries - b.queries, a.keys - b.keys, a.number - b.number};
}
Count operator+(const Count& a, const Count& b) {
  return {a.queries + b.queries, a.keys + b.keys, a.number + b.number};
}

constexpr Count kQueries = {1, 0, 0}, kKeys = {0, 1, 0}, kPast = {-1, 1, 0}, kZero = {}, kOne = {0, 0, 1};

class Reader {
 public:
  Reader(const Graph& graph, const AttentionLengths& lengths) : graph_(graph), lengths_(lengths) {}

  std::optional<bool> Run(ValueId bools) const {
    if (const Tensor* constant = ConstantOf(graph_, bools)) return OfConstant(*constant);
    const NodeId n = ProducerOf(graph_, bools);
    if (n == kNoNode || HasReferences(graph_.node(n))) return std::nullopt;
    const Node& node = graph_.node(n);
    if (IsOp(node, "Not")) {
      const auto inner = Run(node.inputs[0]);
      return inner ? std::optional(!*inner) : std::nullopt;
    }
    if (IsOp(node, "Slice")) return OfSlices(bools);
    if (IsOp(node, "Cast")) return IsBool(bools) ? Run(node.inputs[0]) : std::nullopt;
    if (IsOp(node, "Unsqueeze")) return AddsInFront(node, bools) ? Run(node.inputs[0]) : std::nullopt;
    const bool less = IsOp(node, "Less"), greater = IsOp(node, "Greater");
    const bool at_most = IsOp(node, "LessOrEqual"), at_least = IsOp(node, "GreaterOrEqual");
    if (!less && !greater && !at_most && !at_least) return std::nullopt;
    // row < column hides, column <= row sees, and the same turned round.
    const ValueId a = InputOf(node, 0), b = InputOf(node, 1);
    if (less || at_least) return IsRows(a) && IsColumns(b) ? std::optional(at_least) : std::nullopt;
    return IsColumns(a) && IsRows(b) ? std::optional(at_most) : std::nullopt;
  }

 private:
  bool IsBool(ValueId v) const { return graph_.value(v).dtype == DType::kBool; }

  // Axes of length 1 before all others.
  bool AddsInFront(const Node& unsqueeze, ValueId out) const {
    const auto axes = IntsOf(graph_, unsqueeze, "axes", 1);
    const auto rank = RankOf(graph_, out);
    if (!axes || !rank) return false;
    return std::all_of(axes->begin(), axes->end(), [&](int64_t axis) {
      const int64_t front = axis < 0 ? axis + *rank : axis;
      return front >= 0 && front < static_cast<int64_t>(axes->size()) &&
             *rank - static_cast<int64_t>(axes->size()) >= 2;
    });
  }

  // A triangle of constants, of as many rows and columns as there are queries and keys.
  std::optional<bool> OfConstant(const Tensor& constant) const {
    const auto matrix = Matrix(constant);
    if (!matrix || !lengths_.queries.known() || !lengths_.keys.known()) return std::nullopt;
    if (matrix->rows != lengths_.queries.value || matrix->columns != lengths_.keys.value) return std::nullopt;
    return matrix->rows <= matrix->columns ? Triangle(*matrix, matrix->columns - matrix->rows) : std::nullopt;
  }

  struct BoolMatrix {
    Tensor owned;
    int64_t rows = 0, columns = 0;
  };
  static std::optional<BoolMatrix> Matrix(const Tensor& constant) {
    if (constant.rank() < 2 || constant.size() < 1 || constant.size() > kMostElements) return std::nullopt;
    if (constant.dtype() != DType::kBool && constant.dtype() != DType::kUint8) return std::nullopt;
    BoolMatrix out;
    out.rows = constant.dims()[constant.dims().size() - 2];
    out.columns = constant.dims().back();
    auto owned = constant.Materialize();
    if (!owned.ok() || out.rows * out.columns != constant.size()) return std::nullopt;
    out.owned = *std::move(owned);
    return out;
  }
  // With row i's diagonal at column i + past.
  static std::optional<bool> Triangle(const BoolMatrix& matrix, int64_t past) {
    const auto at = [&](int64_t i) {
      const auto k = static_cast<size_t>(i);
      return matrix.owned.dtype() == DType::kBool ? matrix.owned.data<bool>()[k] : matrix.owned.data<uint8_t>()[k] != 0;
    };
    const bool sees = at(0);
    for (int64_t i = 0; i < matrix.rows; ++i) {
      for (int64_t j = 0; j < matrix.columns; ++j) {
        if (at(i * matrix.columns + j) != (j <= i + past ? sees : !sees)) return std::nullopt;
      }
    }
    return sees;
  }

  // [.., past to keys, 0 to keys] of a square triangle. What it is too small for has fewer rows than there are queries
  // or fewer columns than keys, which the scores beside it don't allow.
  std::optional<bool> OfSlices(ValueId bools) const {
    bool rows = false, columns = false;
    ValueId v = bools;
    for (const Node* slice = MadeBy(graph_, v, "Slice"); slice != nullptr; slice = MadeBy(graph_, v, "Slice")) {
      const auto rank = RankOf(graph_, v);
      const auto axes = IntsOf(graph_, InputOf(*slice, 3));
      if (!rank || !axes || axes->size() != 1 || HasReferences(*slice) || !StepsByOne(*slice)) return std::nullopt;
      const int64_t axis = (axes->front() < 0 ? axes->front() + *rank : axes->front()) - *rank;
      const auto begin = CountOf(InputOf(*slice, 1)), end = CountOf(InputOf(*slice, 2));
      if (!begin || end != kKeys) return std::nullopt;
      bool& found = axis == -2 ? rows : columns;
      if (found || (axis != -2 && axis != -1) || begin != (axis == -2 ? kPast : kZero)) return std::nullopt;
      found = true;
      v = slice->inputs[0];
    }
    const Tensor* constant = ConstantOf(graph_, v);
    const auto matrix = constant != nullptr ? Matrix(*constant) : std::nullopt;
    if (!rows || !columns || !matrix || matrix->rows != matrix->columns || matrix->rows < 2) return std::nullopt;
    return Triangle(*matrix, 0);
  }
  bool StepsByOne(const Node& slice) const {
    return InputOf(slice, 4) == kNoValue || IsConstantOf(graph_, slice.inputs[4], 1);
  }

  bool IsRange(ValueId v, const Count& begin) const {
    const Node* range = MadeBy(graph_, v, "Range");
    return range != nullptr && CountOf(InputOf(*range, 0)) == begin && CountOf(InputOf(*range, 1)) == kKeys &&
           CountOf(InputOf(*range, 2)) == kOne;
  }
  // [.., 1, keys] from 0.
  bool IsColumns(ValueId v) const {
    while (const Node* unsqueeze = MadeBy(graph_, v, "Unsqueeze")) {
      const auto axes = IntsOf(graph_, *unsqueeze, "axes", 1);
      const auto rank = RankOf(graph_, v);
      if (!axes || !rank || HasReferences(*unsqueeze)) return false;
      for (int64_t axis : *axes) {
        if (axis == -1 || axis == *rank - 1) return false;
      }
      v = unsqueeze->inputs[0];
    }
    return IsRange(v, kZero);
  }
  // [.., queries, 1] from the length of the past.
  bool IsRows(ValueId v) const {
    std::vector<int64_t> from_back;  // of the axes put in, counted from the last, which is -1
    ValueId inner = v;
    while (const Node* unsqueeze = MadeBy(graph_, inner, "Unsqueeze")) {
      const auto axes = IntsOf(graph_, *unsqueeze, "axes", 1);
      const auto rank = RankOf(graph_, inner);
      if (!axes || !rank || HasReferences(*unsqueeze)) return false;
      if (RankOf(graph_, unsqueeze->inputs[0]) == 1) {  // of [queries]: the last axis, and any before
        const bool last = std::any_of(axes->begin(), axes->end(), [&](int64_t a) { return a == -1 || a == *rank - 1; });
        const bool row = std::any_of(axes->begin(), axes->end(), [&](int64_t a) { return a == -2 || a == *rank - 2; });
        return last && !row && IsRange(unsqueeze->inputs[0], kPast);
      }
      for (int64_t axis : *axes) {
        if ((axis < 0 ? axis + *rank : axis) >= *rank - 2) return false;
      }
      inner = unsqueeze->inputs[0];
    }
    return false;
  }

  std::optional<Count> CountOf(ValueId v, int depth = 0) const {
    if (v == kNoValue || depth > kMostDeep) return std::nullopt;
    if (const auto ints = IntsOf(graph_, v)) {
      return ints->size() == 1 ? std::optional(Count{0, 0, ints->front()}) : std::nullopt;
    }
    const NodeId n = ProducerOf(graph_, v);
    if (n == kNoNode || HasReferences(graph_.node(n))) return std::nullopt;
    const Node& node = graph_.node(n);
    const auto input = [&](size_t i) { return CountOf(InputOf(node, i), depth + 1); };
    for (const char* same : {"Unsqueeze", "Squeeze", "Identity", "Cast", "Reshape"}) {
      if (IsOp(node, same)) return input(0);
    }
    if (IsOp(node, "Add") || IsOp(node, "Sub")) {
      const auto a = input(0), b = input(1);
      if (!a || !b) return std::nullopt;
      return IsOp(node, "Add") ? *a + *b : *a - *b;
    }
    return OfDim(node);
  }
  // Of Gather(Shape(value), axis), or Shape(value) of one axis.
  std::optional<Count> OfDim(const Node& node) const {
    const Node* shape = &node;
    int64_t axis = 0;
    if (IsOp(node, "Gather")) {
      const auto index = IntsOf(graph_, InputOf(node, 1));
      shape = MadeBy(graph_, node.inputs[0], "Shape");
      if (shape == nullptr || !index || index->size() != 1 || shape->attributes.Has("start")) return std::nullopt;
      axis = index->front();
    } else if (IsOp(node, "Shape") && node.attributes.Has("start") && node.attributes.Has("end")) {
      axis = node.attributes.Int("start", 0);
      if (node.attributes.Int("end", 0) != axis + 1) return std::nullopt;
    } else {
      return std::nullopt;
    }
    const ValueId value = InputOf(*shape, 0);
    const auto rank = RankOf(graph_, value);
    if (!rank || axis >= *rank || axis < -*rank) return std::nullopt;
    return RoleOf(value, static_cast<size_t>(axis < 0 ? axis + *rank : axis));
  }
  std::optional<Count> RoleOf(ValueId value, size_t axis) const {
    if (value == lengths_.key && axis == lengths_.key_axis) return kKeys;
    if (value == lengths_.past && axis == lengths_.past_axis) return kPast;
    const Dim& dim = (*graph_.value(value).shape)[axis];
    if (SameDim(dim, lengths_.queries)) return kQueries;
    if (SameDim(dim, lengths_.keys)) return kKeys;
    if (lengths_.past != kNoValue &&
        RankOf(graph_, lengths_.past).value_or(0) > static_cast<int64_t>(lengths_.past_axis) &&
        SameDim(dim, (*graph_.value(lengths_.past).shape)[lengths_.past_axis])) {
      return kPast;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const AttentionLengths& lengths_;
};

struct Bounds {
  double low, high;
};

template <typename T>
std::optional<Bounds> BoundsIn(const Tensor& tensor) {
  Bounds out = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const T& element : tensor.data<T>()) {
    const auto number = static_cast<double>(element);
    if (std::isnan(number)) return std::nullopt;
    out = {std::min(out.low, number), std::max(out.high, number)};
  }
  return out;
}

std::optional<Bounds> BoundsOfConstant(const Tensor& constant) {
  if (constant.size() == 0 || constant.size() > kMostElements) return std::nullopt;
  const auto owned = constant.Materialize();
  if (!owned.ok()) return std::nullopt;
  switch (owned->dtype()) {
    case DType::kFloat:
      return BoundsIn<float>(*owned);
    case DType::kFloat16:
      return BoundsIn<float16>(*owned);
    case DType::kDouble:
      return BoundsIn<double>(*owned);
    case DType::kInt64:
      return BoundsIn<int64_t>(*owned);
    case DType::kInt32:
      return BoundsIn<int32_t>(*owned);
    case DType::kBool:
      return BoundsIn<bool>(*owned);
    default:
      return std::nullopt;
  }
}

// Of what a value of this type can be.
std::optional<Bounds> BoundsOfType(DType type) {
  switch (type) {
    case DType::kBool:
      return Bounds{0, 1};
    case DType::kUint8:
      return Bounds{0, 255};
    case DType::kInt8:
      return Bounds{-128, 127};
    case DType::kInt32:
      return Bounds{-0x1p31, 0x1p31};
    case DType::kInt64:
      return Bounds{-0x1p63, 0x1p63};
    default:
      return std::nullopt;
  }
}

double LargestOf(DType type) {
  return type == DType::kFloat16  ? 65504
         : type == DType::kDouble ? std::numeric_limits<double>::max()
                                  : double{std::numeric_limits<float>::max()};
}

std::optional<Bounds> BoundsOf(const Graph& graph, ValueId v, int depth);

std::optional<Bounds> BoundsOfNode(const Graph& graph, const Node& node, ValueId out, int depth) {
  const auto input = [&](size_t i) { return BoundsOf(graph, InputOf(node, i), depth + 1); };
  for (const char* same :
       {"Unsqueeze", "Squeeze", "Identity", "Reshape", "Transpose", "Expand", "Slice", "Gather", "Tile"}) {
    if (IsOp(node, same)) return input(0);
  }
  if (IsOp(node, "Cast")) {
    const auto inner = input(0);
    return inner || BoundsOfType(graph.value(out).dtype) ? inner : std::nullopt;
  }
  const bool where = IsOp(node, "Where");
  if (!where && !IsOp(node, "Add") && !IsOp(node, "Sub") && !IsOp(node, "Mul")) return std::nullopt;
  const auto a = input(where ? 1 : 0), b = input(where ? 2 : 1);
  if (!a || !b) return std::nullopt;
  if (where) return Bounds{std::min(a->low, b->low), std::max(a->high, b->high)};
  if (IsOp(node, "Add")) return Bounds{a->low + b->low, a->high + b->high};
  if (IsOp(node, "Sub")) return Bounds{a->low - b->high, a->high - b->low};
  const auto [low, high] = std::minmax({a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high});
  return Bounds{low, high};
}

// nullopt also when they pass the largest number of the value's type.
std::optional<Bounds> BoundsOf(const Graph& graph, ValueId v, int depth) {
  if (v == kNoValue || depth > kMostDeep) return std::nullopt;
  const DType type = graph.value(v).dtype;
  std::optional<Bounds> out;
  if (const Tensor* constant = ConstantOf(graph, v)) {
    out = BoundsOfConstant(*constant);
  } else if (const NodeId n = ProducerOf(graph, v); n != kNoNode && !HasReferences(graph.node(n))) {
    out = BoundsOfNode(graph, graph.node(n), v, depth);
  }
  if (const auto by_type = BoundsOfType(type)) {
    if (!out || out->low < by_type->low || out->high > by_type->high) return by_type;
  }
  if (out && (out->low < -LargestOf(type) || out->high > LargestOf(type))) return std::nullopt;
  return out;
}

}  // namespace

std::optional<bool> CausalBools(const Graph& graph, ValueId bools, const AttentionLengths& lengths) {
  return Reader(graph, lengths).Run(bools);
}

bool IsFinite(const Graph& graph, ValueId value) { return BoundsOf(graph, value, 0).has_value(); }

}  // namespace quant
