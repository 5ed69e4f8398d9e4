// The arrays of an .npz archive, by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/array_stream.h"

namespace quant {

struct NpzMember {
  std::string name;  // of the array, without ".npy"
  std::unique_ptr<ArrayStream> array;
};

// Members in the archive's order. Stored and deflated entries; sizes that no such entry can have, members that are no
// .npy, repeated names and encryption are DataError. Checksums are verified when the last byte of a member is read.
StatusOr<std::vector<NpzMember>> OpenNpz(const std::string& path);

}  // namespace quant
