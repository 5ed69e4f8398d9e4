// A Conv's weights in the order in which the float32 matrix kernel reads them.
#pragma once

#include <memory>
#include <vector>

#include "libquant/ops/conv_plan.h"
#include "libquant/ops/gemm.h"

namespace quant {

using ConvWeights = std::vector<PackedRows>;  // one for each group: [filters, channels * taps]

// `w` is input 1 as float32. Kept with the node where it is the same in every run: the order depends on no other input,
// so that nodes whose input changes its dims from run to run may share it.
inline std::shared_ptr<const ConvWeights> PackConvWeights(const KernelContext& context, const ConvPlan& plan,
                                                          const float* w) {
  const auto pack = [&] {
    const int64_t filters = plan.out_channels, k = plan.reduction();
    ConvWeights out;
    for (int64_t g = 0; g < plan.groups; ++g) out.emplace_back(MatrixRef<float>{w + g * filters * k, k}, filters, k);
    return out;
  };
  return context.is_constant(1) ? context.Kept<ConvWeights>(pack) : std::make_shared<const ConvWeights>(pack());
}

}  // namespace quant
