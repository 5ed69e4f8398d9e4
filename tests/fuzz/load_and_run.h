// What the fuzzer does with a file: everything `nibble run` does with a model it was handed, within small limits.
#pragma once

#include <string>

#include "libquant/exec/session.h"
#include "tests/fuzz/case_result.h"

namespace quant {

inline const SessionOptions kFuzzLimits = {
    .max_folded_bytes = int64_t{1} << 22, .max_buffer_bytes = int64_t{1} << 26, .max_body_runs = 2000};

// Loads the model, makes inputs, plans and runs: once on one thread, or on two. One ending, of the last stage begun.
Endings LoadAndRun(const std::string& path, const std::string& bytes);

}  // namespace quant
