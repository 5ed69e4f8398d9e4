// Stores as float16 what stays float: the weight and a Cast back, so that types in the graph stay as they were.
//
//   Add(x, W)  =>  Add(x, Cast<to = float>(W.half))
//
// Runtimes fold the Cast when they load the model: half the file, the same speed.
#pragma once

#include "libquant/base/status.h"
#include "passes/quant/weight_quant.h"

namespace quant {

// For every float32 weight of the plan that is not quantized. The values are rounded when they are asked for; one that
// float16 can't hold is then Unsupported, with the weight's name.
Status KeepAsHalf(Model& model, const QuantizePlan& plan);

}  // namespace quant
