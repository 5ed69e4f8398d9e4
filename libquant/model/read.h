// Reading ONNX. One walk over the file's wire format leaves the bytes of large tensors where they are: weights,
// inline or external, become ranges of files, so a file of any size opens and parsing copies no weight.
#pragma once

#include <string>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// Reads, resolves names, sorts nodes if the file did not, and verifies the graph. Everything in the file survives
// in the Model (unknown fields in the `extra`s). DataError for anything that is no sound model: empty file, Git LFS
// pointer, truncated or foreign bytes, tensor sizes that disagree with dims, external data that is missing, too
// short, overlapping its file's end or outside the model's folder, undefined names, cycles, bodies nested too deep.
StatusOr<Model> ReadModel(const std::string& path);

// Bytes of all files a model was read from.
int64_t SourceBytes(const Model& model);

}  // namespace quant
