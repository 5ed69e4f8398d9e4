// A part of a set of samples, spread evenly over it.
#pragma once

#include <cstdint>
#include <memory>

#include "libquant/data/samples.h"

namespace quant {

// `count` of them, or all when there are no more. `samples` must outlive what is returned.
std::unique_ptr<SampleSource> SomeSamples(SampleSource& samples, int64_t count);

}  // namespace quant
