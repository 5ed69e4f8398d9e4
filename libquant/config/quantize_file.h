// The quantizer's options as a YAML file, in the words of the command line, with rules for single weights:
//
//   weights: int4
//   group-size: 64
//   skip: [lm_head]
//   gate: ['coverage>=0.9']
//   rules:                    # the first that matches is the weight's
//     - match: 'attn|mlp'     # RE2, found anywhere in the name of the weight or of a node that reads it
//       group-size: 32
//     - op: Conv              # type of an operator that reads it; with `match`, both must hold
//       weights: int8
//       group-size: channel
//     - match: embed
//       skip: true
#pragma once

#include <string>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"

namespace quant {

// Adds what the file says to `options`. DataError when it can't be read or is longer than 1 MiB; UsageError, with the
// file's name, line and column, for what is no YAML, an unknown or repeated key, and a value that the flag of that
// name would not take.
Status ReadQuantizeFile(const std::string& path, QuantizeOptions& options);

// The same of text; `name` is the file's in messages.
Status ReadQuantizeText(const std::string& text, const std::string& name, QuantizeOptions& options);

// The file that, read into default options, gives these.
std::string QuantizeFileText(const QuantizeOptions& options);

}  // namespace quant
