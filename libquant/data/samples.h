// Samples: named inputs for a model, from an .npz, a folder of .npz/.npy, ONNX test_data_set_* folders, or seeded
// random. Loaded one at a time; a sample set of any size costs one sample's memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/input_spec.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual int64_t count() const = 0;
  virtual StatusOr<NamedTensors> Load(int64_t i) = 0;
  // Outputs stored with sample i (test_data_set_*/output_*.pb), else empty.
  virtual StatusOr<NamedTensors> LoadExpected(int64_t) { return NamedTensors{}; }
};

// Reads a serialized TensorProto; given by whoever may see ONNX types.
using TensorFileReader = std::function<StatusOr<std::pair<std::string, Tensor>>(const std::string& path)>;

// An .npz holds one array per input; when the model's first dimension is dynamic or 1 and the array is longer, each
// index along it is one sample (of leading dim 1), else the archive is one sample. A folder of .npz: one sample
// each, in name order; a folder of .npy: INPUT.npy files, as one .npz. A folder with test_data_set_* (or being one):
// input_N.pb by position or name.
// DataError, saying which names, dtypes or dims were wanted and which were found, when they don't fit.
StatusOr<std::unique_ptr<SampleSource>> OpenSamples(const std::string& path, std::vector<InputSpec> inputs,
                                                    TensorFileReader reader);

// Seeded random: floats uniform in [-1, 1) ... ids within their bound, other integers 0 or 1, bools either; dynamic
// dims get `dynamic_dim` (equal symbols get equal sizes), a leading dynamic dim 1. The same on every machine.
std::unique_ptr<SampleSource> RandomSamples(int64_t count, uint64_t seed, std::vector<InputSpec> inputs,
                                            int64_t dynamic_dim = 8);

// Integer labels, one per sample: a 1-D .npy, or one number a line.
StatusOr<std::vector<int64_t>> ReadLabels(const std::string& path);

}  // namespace quant
