// Walks over protobuf's wire format that touch no weight: reading, large raw_data stays in the file and becomes a
// reference; writing, references become raw_data holes that payloads are put into later. So a file of any size opens
// and is laid out with a skeleton in memory that holds everything but weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/file.h"
#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

// The messages a walk looks into; every other field is copied as it is.
enum class WireMessage { kModel, kGraph, kNode, kAttribute, kTensor, kFunction };

struct FileSkeleton {
  std::string bytes;                // a serialized message that protobuf can parse
  std::vector<FileRange> payloads;  // what its "#<index>" locations mean (see proto.h)
};

// Reads a file that holds one message, with buffered positional reads. raw_data of kInlineBytes or more stays where
// it is. Every length is checked against its parent. DataError, with the byte position, for foreign or truncated
// bytes and for bodies nested too deep; Unsupported when more than protobuf's 2 GiB is left without the raw data.
StatusOr<FileSkeleton> ReadSkeleton(const std::shared_ptr<const File>& file, WireMessage message);

// Where the bytes of a payload go: a hole in the model file, or a range of the external data file.
struct PayloadPlace {
  int64_t size = 0;
  bool external = false;
  int64_t offset = 0;  // in the external data file
};

// A file as a list of pieces: bytes, or a hole for a payload.
struct LayoutPiece {
  std::string bytes;
  int64_t payload = -1;  // >= 0: a hole
  int64_t size = 0;
};
struct FileLayout {
  std::vector<LayoutPiece> pieces;
  int64_t size = 0;
};

// Lays out a serialized skeleton of a ModelProto: each "#<index>" tensor gets its raw_data hole, or the location
// (a file name), offset and length of its external range; enclosing lengths are recomputed.
StatusOr<FileLayout> LayOutModel(std::string_view skeleton, const std::vector<PayloadPlace>& places,
                                 const std::string& external_location);

}  // namespace quant
