// What a target runs in integers: where it wants quantizers and with which parameters. Part of a target's file, under
// `integer`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quant {

struct IntegerRules {
  // Formats taken of activations and of weights, the preferred one first. Without any the target has no integer form.
  // A weight in an unsigned format has its zero point in the middle, a signed one at 0.
  std::vector<std::string> activations;
  std::vector<std::string> weights;
  // Codes of signed weights reach from minus this to this; 0: as far as the format goes.
  int32_t most_signed_code = 0;
  bool zero_points = true;     // activations may have zero points other than the middle of the format
  bool channel_scales = true;  // a weight may have a scale for each output channel
  bool integer_bias = true;    // a bias is int32 at the product of the scales; else it stays float
  // Saturation of a quantizer may stand for the Relu or Clip before it. False where quantizers are taken for remarks
  // only.
  bool absorb_clamps = true;
  // Operators that it runs in integers between dequantized inputs and a quantized output.
  std::vector<std::string> kernels;
  // Of these, the ones that also run in integers when nothing quantizes their output.
  std::vector<std::string> float_outputs;
  // Operators that move or pick codes, when input and output have the same parameters.
  std::vector<std::string> moves;

  bool any() const { return !activations.empty(); }
  bool HasKernel(std::string_view op_type) const;
  bool MayEndInFloat(std::string_view op_type) const;
  bool Moves(std::string_view op_type) const;
};

}  // namespace quant
