// NonMaxSuppression: boxes picked by falling score, each unless it overlaps one picked before by more than a threshold
// (intersection over union); for every sample and class on its own.
//   boxes [N, B, 4], scores [N, classes, B], selected [picked, 3] as sample, class, box
// Equal scores go by index. A score that is no number is never picked.
#include <algorithm>
#include <cmath>
#include <limits>

#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"

namespace quant {
namespace {

struct Box {
  float x_min, y_min, x_max, y_max;
  float area() const { return (x_max - x_min) * (y_max - y_min); }
};

Box BoxOf(const float* v, bool center) {
  if (center) {
    const float w = v[2] / 2, h = v[3] / 2;
    return {v[0] - w, v[1] - h, v[0] + w, v[1] + h};
  }
  return {std::min(v[1], v[3]), std::min(v[0], v[2]), std::max(v[1], v[3]), std::max(v[0], v[2])};
}

bool OverlapsBy(const Box& a, const Box& b, float threshold) {
  const float w = std::min(a.x_max, b.x_max) - std::max(a.x_min, b.x_min);
  const float h = std::min(a.y_max, b.y_max) - std::max(a.y_min, b.y_min);
  if (!(w > 0 && h > 0)) return false;
  const float both = a.area() + b.area() - w * h;
  return a.area() > 0 && b.area() > 0 && both > 0 && w * h / both > threshold;
}

struct Limits {
  int64_t most = 0;
  float overlap = 0;
  float score = -std::numeric_limits<float>::infinity();
  bool has_score = false;
};

// The one element of an optional float input.
StatusOr<float> OneFloat(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat || tensor.size() != 1) {
    return DataError("{} where a float32 is wanted", Describe(tensor));
  }
  return tensor.data<float>()[0];
}

StatusOr<Limits> ReadLimits(const KernelContext& context) {
  Limits limits;
  if (const Tensor* most = context.input(2)) {
    ASSIGN_OR_RETURN(const auto values, IntsOf(*most));
    if (values.size() != 1) return DataError("max_output_boxes_per_class is {}", Describe(*most));
    limits.most = std::max<int64_t>(values[0], 0);
  }
  if (const Tensor* overlap = context.input(3)) {
    ASSIGN_OR_RETURN(limits.overlap, OneFloat(*overlap));
    if (!(limits.overlap >= 0 && limits.overlap <= 1)) return DataError("iou_threshold is {}", limits.overlap);
  }
  if (const Tensor* score = context.input(4)) {
    limits.has_score = true;
    ASSIGN_OR_RETURN(limits.score, OneFloat(*score));
  }
  return limits;
}

std::vector<int64_t> PickBoxes(const std::vector<Box>& boxes, const float* scores, const Limits& limits) {
  std::vector<int64_t> order, picked;
  for (int64_t b = 0; b < static_cast<int64_t>(boxes.size()); ++b) {
    if (!std::isnan(scores[b]) && (!limits.has_score || scores[b] > limits.score)) order.push_back(b);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  for (int64_t b : order) {
    if (static_cast<int64_t>(picked.size()) >= limits.most) break;
    const Box& box = boxes[static_cast<size_t>(b)];
    const bool free = std::none_of(picked.begin(), picked.end(), [&](int64_t p) {
      return OverlapsBy(box, boxes[static_cast<size_t>(p)], limits.overlap);
    });
    if (free) picked.push_back(b);
  }
  return picked;
}

Status EvalNonMaxSuppression(KernelContext& context) {
  const Tensor &boxes = context.in(0), &scores = context.in(1);
  for (const Tensor* t : {&boxes, &scores}) {
    if (t->dtype() != DType::kFloat || t->rank() != 3) return DataError("an input is {}", Describe(*t));
  }
  const int64_t samples = boxes.dims()[0], count = boxes.dims()[1], classes = scores.dims()[1];
  if (boxes.dims()[2] != 4 || scores.dims()[0] != samples || scores.dims()[2] != count) {
    return DataError("boxes of {} with scores of {}", ToString(boxes.dims()), ToString(scores.dims()));
  }
  const int64_t center = context.attributes().Int("center_point_box", 0);
  if (center != 0 && center != 1) return DataError("center_point_box is {}", center);
  ASSIGN_OR_RETURN(const Limits limits, ReadLimits(context));
  std::vector<std::vector<int64_t>> picked;
  const bool empty = limits.most == 0 || scores.size() == 0;
  if (!empty) picked.resize(static_cast<size_t>(samples * classes));
  for (int64_t n = 0; n < samples && !empty; ++n) {
    std::vector<Box> list;
    for (int64_t b = 0; b < count; ++b) {
      list.push_back(BoxOf(boxes.data<float>().data() + (n * count + b) * 4, center == 1));
    }
    ParallelFor(classes, [&](int64_t c) {
      const int64_t item = n * classes + c;
      picked[static_cast<size_t>(item)] = PickBoxes(list, scores.data<float>().data() + item * count, limits);
    });
  }
  std::vector<int64_t> rows;
  for (size_t item = 0; item < picked.size(); ++item) {
    for (int64_t b : picked[item]) {
      rows.push_back(static_cast<int64_t>(item) / classes);
      rows.push_back(static_cast<int64_t>(item) % classes);
      rows.push_back(b);
    }
  }
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, DType::kInt64, {static_cast<int64_t>(rows.size()) / 3, 3}));
  std::copy(rows.begin(), rows.end(), out->mutable_data<int64_t>().begin());
  return OkStatus();
}

}  // namespace

const OpDef& NonMaxSuppressionOp() {
  static const OpDef def = {.name = "NonMaxSuppression",
                            .since = {10, 11},
                            .min_inputs = 2,
                            .eval = EvalNonMaxSuppression,
                            .role = Control{},
                            .exactness = Exactness::kExact,
                            .summary = "Boxes picked by score that do not overlap"};
  return def;
}

}  // namespace quant
