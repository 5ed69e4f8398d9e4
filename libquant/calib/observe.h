// A model run on samples while somebody looks at what its values are, one tensor at a time.
#pragma once

#include <functional>
#include <string>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/exec/session.h"
#include "libquant/ir/graph.h"

namespace quant {

// `see` gets the feeds and each value that `wanted` names, sample by sample, in execution order; its error ends the
// run. The model's operators must all have a kernel. `progress` is told samples done and all.
Status ObserveValues(const Model& model, SampleSource& samples, const std::function<bool(const std::string&)>& wanted,
                     const RunHooks::Probe& see, const std::function<void(int64_t done, int64_t all)>& progress);

}  // namespace quant
