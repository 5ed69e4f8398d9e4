// Lists of tensors of one element type (ONNX's sequences): made, changed by copy, measured, taken apart. Tensors share
// their bytes, so that a changed list costs its handles alone.
#include <algorithm>

#include "libquant/ops/axes.h"
#include "libquant/ops/concat.h"
#include "libquant/ops/exact_op.h"
#include "libquant/ops/inputs.h"

namespace quant {
namespace {

StatusOr<const std::vector<Tensor>*> ListIn(const KernelContext& context, int i) {
  const std::vector<Tensor>* list = context.in(i).list();
  if (list == nullptr) return DataError("input {} is {}, not a sequence", i, Describe(context.in(i)));
  return list;
}

// A position in a list of this length, counted from the back when negative; `end` allows one past the last.
StatusOr<int64_t> PositionIn(const Tensor& position, int64_t length, bool end) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, IntsOf(position));
  if (given.size() != 1) return DataError("the position is {}, not one number", Describe(position));
  const int64_t at = given[0] < 0 ? given[0] + length : given[0];
  if (at < 0 || at >= length + (end ? 1 : 0)) return DataError("position {} in a sequence of {}", given[0], length);
  return at;
}

Status CheckItem(const std::vector<Tensor>& list, const Tensor& item) {
  if (item.list() != nullptr || item.dtype() == DType::kNothing) return DataError("an item is no tensor");
  if (list.empty() || list[0].dtype() == item.dtype()) return OkStatus();
  return DataError("{} beside {} in one sequence", Describe(item), Describe(list[0]));
}

Status EvalSequenceConstruct(KernelContext& context) {
  std::vector<Tensor> list;
  for (int i = 0; i < context.input_count(); ++i) {
    RETURN_IF_ERROR(RequireInputs(context, {i}));
    RETURN_IF_ERROR(CheckItem(list, context.in(i)));
    list.push_back(context.in(i));
  }
  context.Set(0, Tensor::OfList(std::move(list)));
  return OkStatus();
}

Status EvalSequenceEmpty(KernelContext& context) {
  context.Set(0, Tensor::OfList({}));
  return OkStatus();
}

Status EvalSequenceInsert(KernelContext& context) {
  ASSIGN_OR_RETURN(const auto* const given, ListIn(context, 0));
  std::vector<Tensor> list = *given;
  RETURN_IF_ERROR(CheckItem(list, context.in(1)));
  auto at = static_cast<int64_t>(list.size());
  if (context.input(2) != nullptr) {
    ASSIGN_OR_RETURN(at, PositionIn(context.in(2), at, true));
  }
  list.insert(list.begin() + at, context.in(1));
  context.Set(0, Tensor::OfList(std::move(list)));
  return OkStatus();
}

Status EvalSequenceErase(KernelContext& context) {
  ASSIGN_OR_RETURN(const auto* const given, ListIn(context, 0));
  std::vector<Tensor> list = *given;
  auto at = static_cast<int64_t>(list.size()) - 1;
  if (context.input(1) != nullptr) {
    ASSIGN_OR_RETURN(at, PositionIn(context.in(1), static_cast<int64_t>(list.size()), false));
  }
  if (list.empty()) return DataError("the sequence is empty");
  list.erase(list.begin() + at);
  context.Set(0, Tensor::OfList(std::move(list)));
  return OkStatus();
}

Status EvalSequenceAt(KernelContext& context) {
  ASSIGN_OR_RETURN(const auto* const list, ListIn(context, 0));
  ASSIGN_OR_RETURN(const int64_t at, PositionIn(context.in(1), static_cast<int64_t>(list->size()), false));
  context.Set(0, (*list)[static_cast<size_t>(at)]);
  return OkStatus();
}

Status EvalSequenceLength(KernelContext& context) {
  ASSIGN_OR_RETURN(const auto* const list, ListIn(context, 0));
  context.Set(0, Tensor::Scalar(static_cast<int64_t>(list->size())));
  return OkStatus();
}

constexpr int64_t kMostParts = int64_t{1} << 24;  // an axis without elements may be of any length

// Lengths of the parts of an axis: those of `split` when it is a vector, pieces as long as it says when it is a scalar,
// single elements without it.
StatusOr<std::vector<int64_t>> PartLengths(const Tensor* split, int64_t dim) {
  if (dim > kMostParts) return Unsupported("an axis of {} elements as a sequence", dim);
  if (split == nullptr) return std::vector<int64_t>(static_cast<size_t>(dim), 1);
  ASSIGN_OR_RETURN(std::vector<int64_t> given, IntsOf(*split));
  if (split->rank() > 1) return DataError("split is {}", Describe(*split));
  std::vector<int64_t> lengths;
  int64_t left = dim;
  if (split->rank() == 0) {
    if (given[0] < 1) return DataError("parts of {} elements", given[0]);
    for (; left > 0; left -= lengths.back()) lengths.push_back(std::min(left, given[0]));
    return lengths;
  }
  for (int64_t length : given) {
    if (length < 0 || length > left) return DataError("split [{}] of an axis of {}", ToString(given), dim);
    left -= length;
  }
  if (left != 0) return DataError("split [{}] of an axis of {}", ToString(given), dim);
  return given;
}

Status EvalSplitToSequence(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const int64_t dim = x.dims()[static_cast<size_t>(axis)];
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, PartLengths(context.input(1), dim));
  const bool drop_axis = context.input(1) == nullptr && context.attributes().Int("keepdims", 1) == 0;
  std::vector<Tensor> list;
  int64_t at = 0;
  for (int64_t length : lengths) {
    ASSIGN_OR_RETURN(Tensor part, PartAlong(context, x, axis, at, length));
    Dims dims = part.dims();
    if (drop_axis) dims.erase(dims.begin() + axis);
    list.push_back(part.Reshaped(std::move(dims)));
    at += length;
  }
  context.Set(0, Tensor::OfList(std::move(list)));
  return OkStatus();
}

Status EvalConcatFromSequence(KernelContext& context) {
  ASSIGN_OR_RETURN(const auto* const list, ListIn(context, 0));
  if (list->empty()) return DataError("the sequence is empty");
  const Attribute* given = context.attributes().Find("axis");
  if (given == nullptr) return DataError("there is no axis");
  int64_t axis = context.attributes().Int("axis", 0);
  std::vector<Tensor> items = *list;
  if (context.attributes().Int("new_axis", 0) != 0) {
    for (Tensor& item : items) {
      ASSIGN_OR_RETURN(const int64_t at, NormalizeAxis(axis, item.rank() + 1));
      Dims dims = item.dims();
      dims.insert(dims.begin() + at, 1);
      item = item.Reshaped(std::move(dims));
    }
  }
  std::vector<const Tensor*> parts;
  parts.reserve(items.size());
  for (const Tensor& item : items) parts.push_back(&item);
  return ConcatTensors(context, parts, axis);
}

// A list, a tensor (an optional with a value) or nothing.
Status EvalOptional(KernelContext& context) {
  context.Set(0, context.input(0) == nullptr ? Tensor::Nothing() : context.in(0));
  return OkStatus();
}

Status EvalOptionalHasElement(KernelContext& context) {
  const Tensor* x = context.input(0);
  context.Set(0, Tensor::Scalar(x != nullptr && x->dtype() != DType::kNothing));
  return OkStatus();
}

Status EvalOptionalGetElement(KernelContext& context) {
  if (context.in(0).dtype() == DType::kNothing) return DataError("the optional has no element");
  context.Set(0, context.in(0));
  return OkStatus();
}

OpDef OnLists(OpDef op) {
  op.takes_lists = true;
  return op;
}

}  // namespace

#define NIBBLE_SINCE(...) \
  { __VA_ARGS__ }
#define NIBBLE_ON_LISTS(op, since_list, min_inputs, role, text)                                   \
  const OpDef& op##Op() {                                                                         \
    static const OpDef def = OnLists(ExactOp(#op, since_list, min_inputs, Eval##op, role, text)); \
    return def;                                                                                   \
  }
NIBBLE_ON_LISTS(SequenceConstruct, NIBBLE_SINCE(11), 1, PassThrough{}, "A sequence of the inputs")
NIBBLE_ON_LISTS(SequenceEmpty, NIBBLE_SINCE(11), 0, Control{}, "A sequence without items")
NIBBLE_ON_LISTS(SequenceInsert, NIBBLE_SINCE(11), 2, PassThrough{}, "A sequence with one item more")
NIBBLE_ON_LISTS(SequenceErase, NIBBLE_SINCE(11), 1, PassThrough{}, "A sequence with one item less")
NIBBLE_ON_LISTS(SequenceAt, NIBBLE_SINCE(11), 2, PassThrough{}, "One item of a sequence")
NIBBLE_ON_LISTS(SequenceLength, NIBBLE_SINCE(11), 1, Control{}, "The number of items")
NIBBLE_ON_LISTS(SplitToSequence, NIBBLE_SINCE(11, 24), 1, PassThrough{}, "Parts along an axis, as a sequence")
NIBBLE_ON_LISTS(ConcatFromSequence, NIBBLE_SINCE(11), 1, SharedScale{}, "The items along an axis, old or new")
NIBBLE_ON_LISTS(Optional, NIBBLE_SINCE(15), 0, PassThrough{}, "The input, or nothing")
NIBBLE_ON_LISTS(OptionalHasElement, NIBBLE_SINCE(15, 18), 0, Control{}, "Whether there is a value")
NIBBLE_ON_LISTS(OptionalGetElement, NIBBLE_SINCE(15, 18), 1, PassThrough{}, "The value of an optional")
#undef NIBBLE_ON_LISTS
#undef NIBBLE_SINCE

}  // namespace quant
