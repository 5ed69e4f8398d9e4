// Conv through a padded copy of the input in which a kernel tap is nothing but a shift (phased_plane.h), the same for
// all outputs of an image:
//   y[m, q] = sum over c, taps of w[m, c, tap] * copy[c * plane + shift(tap) + q]
// No matrix of windows is made, except of tiles whose rows of outputs are so short that much would be made in vain.
#pragma once

#include <cstdint>
#include <vector>

#include "libquant/ops/conv_plan.h"

namespace quant {

// False for windows whose copy would be much larger than the input.
bool SuitsConvByShift(const ConvPlan& plan);

// `tail` may be empty.
void ConvByShift(const KernelContext& context, const ConvPlan& plan, const float* x, const float* w, const float* bias,
                 const Tail& tail, float* y);

}  // namespace quant
