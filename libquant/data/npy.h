// NumPy files: .npy headers are ours, .npz archives are libzip's.
#pragma once

#include <span>
#include <string>

#include "libquant/base/status.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

// C order, little-endian, fixed-size types; Fortran order is transposed on reading. DataError otherwise. bfloat16 and
// 4-bit types, which NumPy lacks, are refused.
StatusOr<Tensor> ReadNpy(const std::string& path);
StatusOr<NamedTensors> ReadNpz(const std::string& path);
StatusOr<Tensor> ParseNpy(const std::string& what, std::span<const std::byte> bytes);

// Whole or not at all. Arrays under the given names (which may hold any characters); types that NumPy lacks are
// written as float32 (bfloat16) or int8/uint8 (4-bit). The same bytes each time: no timestamps.
Status WriteNpz(const std::string& path, const NamedTensors& arrays);

}  // namespace quant
