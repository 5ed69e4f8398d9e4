// Tensors: a dtype, dims and a payload. A payload is owned bytes, a range of a file, or deferred: its size is
// known now, its bytes are produced when the writer or the executor asks. A Tensor is a cheap handle; payloads
// are shared and, once made, never changed. Layout is ONNX's raw_data: row-major, little-endian, 4-bit elements
// two a byte (first in the low nibble), rows not byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "libquant/base/file.h"
#include "libquant/base/status.h"
#include "libquant/ir/dtype.h"
#include "libquant/ir/shape.h"

namespace quant {

// Bytes aligned to 64, padded at the end so that a vector load at the last element stays inside.
class Buffer {
 public:
  // Uninitialised. Size must be >= 0.
  explicit Buffer(int64_t size);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::byte* data_;
  int64_t size_;
};

// Where a producer puts one output's bytes. Ranges written must be disjoint; then any thread may write.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status Write(int64_t offset, std::span<const std::byte> bytes) = 0;
};

// Makes the bytes of one or more deferred tensors together (say codes, scales and zero points).
class TensorProducer {
 public:
  virtual ~TensorProducer() = default;
  virtual int output_count() const = 0;
  // Writes every byte of every output exactly once; sinks.size() == output_count(). May be called again.
  virtual Status Produce(std::span<ByteSink* const> sinks) const = 0;
};

struct FileRange {
  std::shared_ptr<const File> file;
  int64_t offset = 0;
  int64_t length = 0;
  bool operator==(const FileRange& o) const {
    return file->id() == o.file->id() && offset == o.offset && length == o.length;
  }
};

struct Deferred {
  std::shared_ptr<const TensorProducer> producer;
  int output = 0;
};

class Tensor {
 public:
  Tensor() = default;  // undefined dtype, no payload
  // Owned, uninitialised. BugError-free: dims must be valid (see BytesFor for checked sizes).
  static Tensor Allocate(DType dtype, Dims dims);
  // Owned copy of the elements of a byte-sized-or-larger type.
  template <typename T>
  static Tensor Of(Dims dims, std::span<const T> values) {  // NOLINT(performance-unnecessary-value-param): moved
    Tensor t = Allocate(DTypeOf<T>(), std::move(dims));
    if (!values.empty()) std::memcpy(t.mutable_bytes().data(), values.data(), values.size_bytes());
    return t;
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return Of<T>({}, std::span<const T>(&value, 1));
  }
  static Tensor FromBuffer(DType dtype, Dims dims, std::shared_ptr<Buffer> buffer);
  static Tensor FromFile(DType dtype, Dims dims, FileRange range);
  static Tensor FromProducer(DType dtype, Dims dims, Deferred deferred);
  // In a run a value may also be a list of tensors (ONNX's sequence, dtype kList, dims [length]) or nothing (kNothing,
  // an optional without a value; one with a value is that value).
  static Tensor OfList(std::vector<Tensor> items);
  static Tensor Nothing();
  static Tensor OfStrings(Dims dims, std::shared_ptr<const std::vector<std::string>> strings);

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  int64_t size() const { return size_; }            // elements
  int64_t byte_size() const { return byte_size_; }  // of the raw_data form
  bool defined() const { return dtype_ != DType::kUndefined; }

  bool is_owned() const { return std::holds_alternative<std::shared_ptr<Buffer>>(payload_); }
  const FileRange* file_range() const { return std::get_if<FileRange>(&payload_); }
  const Deferred* deferred() const { return std::get_if<Deferred>(&payload_); }
  const std::vector<std::string>* strings() const;
  const std::vector<Tensor>* list() const;

  // Owned tensors only.
  std::span<const std::byte> bytes() const;
  // Only for the one that allocated it, before anyone else holds it.
  std::span<std::byte> mutable_bytes();
  template <typename T>
  std::span<const T> data() const {
    return {reinterpret_cast<const T*>(bytes().data()), static_cast<size_t>(size_)};
  }
  template <typename T>
  std::span<T> mutable_data() {
    return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<size_t>(size_)};
  }

  // The same payload under other dims of equal element count: no data moves.
  Tensor Reshaped(Dims dims) const;
  // Owned, and no other tensor holds the bytes.
  bool is_sole_owner() const {
    const auto* buffer = std::get_if<std::shared_ptr<Buffer>>(&payload_);
    return buffer != nullptr && buffer->use_count() == 1;
  }
  // Another tensor in this one's memory, of the same byte size: for one who may overwrite it.
  Tensor InPlace(DType dtype, Dims dims) const;
  // True when both share one payload (the same buffer, file range, or producer output).
  bool SharesPayloadWith(const Tensor& other) const;

  // An owned tensor with this one's bytes: itself when owned, else read or produced. Bools come out as 0 or 1.
  StatusOr<Tensor> Materialize() const;
  // Reads part of the raw bytes into `out` without materializing the rest (owned and file payloads).
  Status ReadBytes(int64_t offset, std::span<std::byte> out) const;
  // Streams all bytes to a sink, in pieces of at most 8 MiB (owned and file payloads).
  Status CopyTo(ByteSink& sink) const;

 private:
  DType dtype_ = DType::kUndefined;
  Dims dims_;
  int64_t size_ = 0;
  int64_t byte_size_ = 0;
  std::variant<std::monostate, std::shared_ptr<Buffer>, FileRange, Deferred,
               std::shared_ptr<const std::vector<std::string>>, std::shared_ptr<const std::vector<Tensor>>>
      payload_;
};

// Bytes of raw_data for these dims, or nullopt on overflow, a negative dim, or a type without a fixed size.
std::optional<int64_t> BytesFor(DType dtype, std::span<const int64_t> dims);

// A sink over memory of a fixed size; writes outside are BugError.
class MemorySink : public ByteSink {
 public:
  explicit MemorySink(std::span<std::byte> out) : out_(out) {}
  Status Write(int64_t offset, std::span<const std::byte> bytes) override;

 private:
  std::span<std::byte> out_;
};

// "int4[256x128]".
std::string Describe(const Tensor& tensor);

}  // namespace quant
