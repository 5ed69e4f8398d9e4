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

// The tensor in a type that NumPy has: float32 for bfloat16, int8 or uint8 for types of less than a byte; itself where
// NumPy has its type. Unsupported for others.
StatusOr<Tensor> ForNumpy(const std::string& name, const Tensor& given);

// Whole or not at all, as ForNumpy says.
Status WriteNpy(const std::string& path, const Tensor& given);

// Whole or not at all. Arrays under the given names (which may hold any characters), as ForNumpy says. The same bytes
// each time: no timestamps.
Status WriteNpz(const std::string& path, const NamedTensors& arrays);

}  // namespace quant
