// Conv without a matrix of windows. The input is copied once, padded, with rows and columns sorted by phase (index
// modulo stride); then a kernel tap is nothing but a shift of that copy, the same for all outputs of an image:
//   y[m, q] = sum over c, taps of w[m, c, tap] * copy[c * plane + shift(tap) + q]
// for flat positions q that run over whole rows of the copy, so that a few columns past the end of each output row are
// made too and dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "libquant/ops/conv_plan.h"

namespace quant {

// True when the positions made in vain cost less than a matrix of windows would.
bool SuitsConvByShift(const ConvPlan& plan);

// `tail` may be empty.
void ConvByShift(const KernelContext& context, const ConvPlan& plan, const float* x, const float* w, const float* bias,
                 const Tail& tail, float* y);

}  // namespace quant
