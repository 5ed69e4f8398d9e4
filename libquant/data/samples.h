// Samples: named inputs for a model, from an .npz, a folder of .npz/.npy, ONNX test_data_set_* folders, or seeded
// random. Loaded one at a time; a sample set of any size costs one sample's memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  // Cheapest in ascending order.
  virtual StatusOr<NamedTensors> Load(int64_t i) = 0;
  // Outputs stored with sample i (test_data_set_*/output_*.pb, in order, under the names that the files give), else
  // empty.
  virtual StatusOr<NamedTensors> LoadExpected(int64_t) { return NamedTensors{}; }
  // Sizes of the model's dynamic dimensions that nobody gave and this source chose: "batch=1, x.2=8". Empty for none.
  virtual std::string ChosenSizes() const { return ""; }
};

// Which of a model's inputs (those a caller feeds) or outputs the numbered file input_N.pb or output_N.pb is, by its
// position among them.
struct FileSlot {
  bool output = false;
  size_t index = 0;
};
// Name and value of a serialized tensor, sequence or optional; given by whoever may see ONNX types and the model's.
using TensorFileReader =
    std::function<StatusOr<std::pair<std::string, Tensor>>(const std::string& path, FileSlot slot)>;

// An .npz holds one array per input; when the model's first dimension is dynamic or 1 and the array is longer, each
// index along it is one sample (of leading dim 1), else the archive is one sample. Arrays that are no longer than that
// go with every sample. The archive is one sample too, all rows at once, when the batch lies on another axis of some
// input: one past the first, not fixed in the model, as long as there are rows, and of the name of the dynamic first
// dimension that would be split; where either has no name, only in inputs whose first dimension is fixed (a state
// [2, ?, 128] beside rows [?, 512]). A folder of .npz: one sample each, whole, in name order; a folder of .npy:
// INPUT.npy files, as one .npz; a single .npy for a model of one input. A folder with test_data_set_* (or being one):
// input_N.pb by name where all files name inputs, else by position; what kind of value a file holds goes by position.
// Arrays named "label" or "labels" are passed over; any other that is no input is an error.
// DataError, saying which names, dtypes or dims were wanted and which were found, when they don't fit.
StatusOr<std::unique_ptr<SampleSource>> OpenSamples(const std::string& path, std::vector<InputSpec> inputs,
                                                    TensorFileReader reader);

// Sizes of the dynamic dimensions of random samples.
struct RandomDims {
  int64_t others = 8;  // of those that nothing else sizes
  // By the model's name of the dimension, or by INPUT.AXIS where it has none; each is one of DynamicDims.
  std::map<std::string, int64_t> named = {};
};

// What the dynamic dimensions of inputs are called: their names, and "x.2" for axis 2 of x where there is none. In the
// inputs' order, unique.
std::vector<std::string> DynamicDims(const std::vector<InputSpec>& inputs);

// Seeded random, the same on every machine; sample i does not depend on the others, nor an input on the order of
// inputs. Floats are uniform in [-1, 1); ids uniform within their bound; integers without a bound, such as masks, are 1
// three times out of four, else 0, and never all 0 along the last axis; bools are either.
// A leading dynamic dim is 1, others as `dims` says, the same for dims of equal name. A name such as "past + seq" is
// the sum of its parts, "total_X" the sum of "past_X" and "X" when inputs have those, unless `dims` names them. Load is
// DataError for an input without known rank or type.
std::unique_ptr<SampleSource> RandomSamples(int64_t count, uint64_t seed, std::vector<InputSpec> inputs,
                                            const RandomDims& dims = {});

// What is right: classes, one per row, or numbers.
struct Labels {
  std::vector<int64_t> classes;
  std::optional<Tensor> numbers;  // float32 or float64; then there are no classes
};

// A 1-D .npy of integers or text with one integer a line; or a .npy of floats.
StatusOr<Labels> ReadLabels(const std::string& path);

}  // namespace quant
