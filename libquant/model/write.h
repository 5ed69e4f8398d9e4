// Writing ONNX, streamed: the whole file is laid out from sizes, then payloads are copied or produced straight into
// their place, two tensors never in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

enum class ExternalData { kAuto, kNever, kAlways };

struct WriteOptions {
  // Auto: when the file would pass 1 GiB. Tensors under 1 KiB stay inline. The data file is PATH.data.
  ExternalData external_data = ExternalData::kAuto;
  // Called as payload bytes are done, for progress: from any thread, but one call at a time.
  std::function<void(int64_t done, int64_t total)> progress;
};

struct WriteResult {
  int64_t model_bytes = 0;
  int64_t data_bytes = 0;  // of the external data file; 0 when there is none
};

// Writes beside the target, syncs, renames; on any failure the target is as it was. UsageError when the target is
// one of model.sources, Unsupported when kNever would pass 2 GiB, OutputError when the disk says no. Afterwards the
// file is opened again with ReadModel and its structure compared.
StatusOr<WriteResult> WriteModel(const Model& model, const std::string& path, const WriteOptions& options = {});

// The sizes that those files would have.
StatusOr<WriteResult> SizesToWrite(const Model& model, ExternalData external_data = ExternalData::kAuto);

}  // namespace quant
