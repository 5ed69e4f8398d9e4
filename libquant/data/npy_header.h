// The header of a .npy file: magic, version, and a Python dictionary of dtype, order and shape.
#pragma once

#include <string>
#include <string_view>

#include "libquant/base/status.h"
#include "libquant/data/byte_stream.h"
#include "libquant/ir/dtype.h"
#include "libquant/ir/shape.h"

namespace quant {

struct NpyHeader {
  DType dtype = DType::kUndefined;
  bool fortran_order = false;
  Dims dims;
  int64_t data_offset = 0;
  int64_t data_bytes = 0;
};

// DataError, naming `what`, unless the stream is one whole array: nothing missing, nothing left over.
StatusOr<NpyHeader> ReadNpyHeader(const std::string& what, ByteStream& stream);

// "<f4"; empty for types that NumPy lacks.
std::string_view NumpyName(DType dtype);
// Bytes of a version 1.0 header, C order, padded to a multiple of 64.
std::string NpyHeaderFor(DType dtype, const Dims& dims);

}  // namespace quant
