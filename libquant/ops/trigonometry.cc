// Trigonometric and hyperbolic functions and their inverses, beside Sin, Cos and Tanh.
#include <cmath>

#include "libquant/ops/map_elements.h"

namespace quant {

#define NIBBLE_FUNCTION(op, call, text, ...)                                                                         \
  const OpDef& op##Op() {                                                                                            \
    static const OpDef def = Unary(                                                                                  \
        #op, {__VA_ARGS__},                                                                                          \
        [](KernelContext& context) { return MapFloats(context, [](auto v) { return std::call(v); }); }, FloatOnly{}, \
        Exactness::kTranscendental, text);                                                                           \
    return def;                                                                                                      \
  }
NIBBLE_FUNCTION(Tan, tan, "Tangent", 7, 22)
NIBBLE_FUNCTION(Asin, asin, "Inverse of the sine", 7, 22)
NIBBLE_FUNCTION(Acos, acos, "Inverse of the cosine", 7, 22)
NIBBLE_FUNCTION(Atan, atan, "Inverse of the tangent", 7, 22)
NIBBLE_FUNCTION(Sinh, sinh, "Hyperbolic sine", 9, 22)
NIBBLE_FUNCTION(Cosh, cosh, "Hyperbolic cosine", 9, 22)
NIBBLE_FUNCTION(Asinh, asinh, "Inverse of the hyperbolic sine", 9, 22)
NIBBLE_FUNCTION(Acosh, acosh, "Inverse of the hyperbolic cosine", 9, 22)
NIBBLE_FUNCTION(Atanh, atanh, "Inverse of the hyperbolic tangent", 9, 22)
#undef NIBBLE_FUNCTION

}  // namespace quant
