#include "libquant/ir/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "libquant/base/checked.h"

namespace quant {
namespace {

constexpr int64_t kChunk = int64_t{8} << 20;
constexpr int64_t kAlign = 64;

// A bool in C++ is 0 or 1; a file may hold any byte, and all but 0 are true.
Tensor WithSoundBools(Tensor tensor) {
  const auto is_odd = [](std::byte b) { return b > std::byte{1}; };
  if (tensor.dtype() != DType::kBool || std::none_of(tensor.bytes().begin(), tensor.bytes().end(), is_odd)) {
    return tensor;
  }
  Tensor out = Tensor::Allocate(DType::kBool, tensor.dims());
  std::transform(tensor.bytes().begin(), tensor.bytes().end(), out.mutable_bytes().begin(),
                 [](std::byte b) { return std::byte{b != std::byte{0}}; });
  return out;
}

}  // namespace

Buffer::Buffer(int64_t size) : size_(size) {
  if (size > std::numeric_limits<int64_t>::max() - 2 * kAlign) throw std::bad_alloc();
  // One extra line so that a vector load of the last elements never leaves the allocation.
  const int64_t padded = CeilDiv(size, kAlign) * kAlign + kAlign;
  data_ = static_cast<std::byte*>(std::aligned_alloc(kAlign, static_cast<size_t>(padded)));
  if (data_ == nullptr) throw std::bad_alloc();
  if (size % kAlign != 0) std::memset(data_ + size, 0, static_cast<size_t>(kAlign - size % kAlign));
}

Buffer::~Buffer() { std::free(data_); }

std::optional<int64_t> BytesFor(DType dtype, std::span<const int64_t> dims) {
  const int bits = InfoOf(dtype).bits;
  if (bits == 0) return std::nullopt;
  const auto count = CheckedProduct(dims);
  if (!count) return std::nullopt;
  if (bits < 8) return CeilDiv(*count, 8 / bits);
  return CheckedMul(*count, bits / 8);
}

Tensor Tensor::Allocate(DType dtype, Dims dims) {
  Tensor t;
  t.dtype_ = dtype;
  t.size_ = CheckedProduct(dims).value();
  t.byte_size_ = BytesFor(dtype, dims).value();
  t.dims_ = std::move(dims);
  t.payload_ = std::make_shared<Buffer>(t.byte_size_);
  return t;
}

Tensor Tensor::FromBuffer(DType dtype, Dims dims, std::shared_ptr<Buffer> buffer) {
  Tensor t;
  t.dtype_ = dtype;
  t.size_ = CheckedProduct(dims).value();
  t.byte_size_ = BytesFor(dtype, dims).value();
  t.dims_ = std::move(dims);
  t.payload_ = std::move(buffer);
  return t;
}

Tensor Tensor::FromFile(DType dtype, Dims dims, FileRange range) {
  Tensor t;
  t.dtype_ = dtype;
  t.size_ = CheckedProduct(dims).value();
  t.byte_size_ = range.length;
  t.dims_ = std::move(dims);
  t.payload_ = std::move(range);
  return t;
}

Tensor Tensor::FromProducer(DType dtype, Dims dims, Deferred deferred) {
  Tensor t;
  t.dtype_ = dtype;
  t.size_ = CheckedProduct(dims).value();
  t.byte_size_ = BytesFor(dtype, dims).value();
  t.dims_ = std::move(dims);
  t.payload_ = std::move(deferred);
  return t;
}

Tensor Tensor::OfStrings(Dims dims, std::shared_ptr<const std::vector<std::string>> strings) {
  Tensor t;
  t.dtype_ = DType::kString;
  t.size_ = CheckedProduct(dims).value();
  t.dims_ = std::move(dims);
  t.payload_ = std::move(strings);
  return t;
}

Tensor Tensor::OfList(std::vector<Tensor> items) {
  Tensor t;
  t.dtype_ = DType::kList;
  t.size_ = static_cast<int64_t>(items.size());
  t.dims_ = {t.size_};
  t.payload_ = std::make_shared<const std::vector<Tensor>>(std::move(items));
  return t;
}

Tensor Tensor::Nothing() {
  Tensor t;
  t.dtype_ = DType::kNothing;
  return t;
}

const std::vector<Tensor>* Tensor::list() const {
  auto p = std::get_if<std::shared_ptr<const std::vector<Tensor>>>(&payload_);
  return p ? p->get() : nullptr;
}

const std::vector<std::string>* Tensor::strings() const {
  auto p = std::get_if<std::shared_ptr<const std::vector<std::string>>>(&payload_);
  return p ? p->get() : nullptr;
}

std::span<const std::byte> Tensor::bytes() const {
  const auto& buffer = std::get<std::shared_ptr<Buffer>>(payload_);
  return {buffer->data(), static_cast<size_t>(byte_size_)};
}

std::span<std::byte> Tensor::mutable_bytes() {
  const auto& buffer = std::get<std::shared_ptr<Buffer>>(payload_);
  return {buffer->data(), static_cast<size_t>(byte_size_)};
}

Tensor Tensor::InPlace(DType dtype, Dims dims) const {
  return FromBuffer(dtype, std::move(dims), std::get<std::shared_ptr<Buffer>>(payload_));
}

Tensor Tensor::Reshaped(Dims dims) const {
  Tensor t = *this;
  t.dims_ = std::move(dims);
  return t;
}

bool Tensor::SharesPayloadWith(const Tensor& other) const {
  if (payload_.index() != other.payload_.index()) return false;
  if (is_owned())
    return std::get<std::shared_ptr<Buffer>>(payload_) == std::get<std::shared_ptr<Buffer>>(other.payload_);
  if (auto a = file_range()) return *a == *other.file_range();
  if (auto a = deferred()) return a->producer == other.deferred()->producer && a->output == other.deferred()->output;
  if (list() != nullptr) return list() == other.list();
  return strings() != nullptr && strings() == other.strings();
}

StatusOr<Tensor> Tensor::Materialize() const {
  if (is_owned()) return WithSoundBools(*this);
  if (strings() != nullptr || list() != nullptr || dtype_ == DType::kNothing) return *this;
  if (file_range() != nullptr) {
    Tensor out = Allocate(dtype_, dims_);
    RETURN_IF_ERROR(ReadBytes(0, out.mutable_bytes()));
    return WithSoundBools(std::move(out));
  }
  if (auto d = deferred()) {
    // A sink that is not the one asked for throws its bytes away.
    struct Discard : ByteSink {
      Status Write(int64_t, std::span<const std::byte>) override { return OkStatus(); }
    } discard;
    Tensor out = Allocate(dtype_, dims_);
    MemorySink sink(out.mutable_bytes());
    std::vector<ByteSink*> sinks(static_cast<size_t>(d->producer->output_count()), &discard);
    sinks[static_cast<size_t>(d->output)] = &sink;
    RETURN_IF_ERROR(d->producer->Produce(sinks));
    return out;
  }
  return BugError("a tensor without a payload was asked for its bytes");
}

Status Tensor::ReadBytes(int64_t offset, std::span<std::byte> out) const {
  const auto length = static_cast<int64_t>(out.size());
  if (offset < 0 || offset > byte_size_ || length > byte_size_ - offset) {
    return BugError("bytes {}+{} asked of a tensor of {}", offset, length, byte_size_);
  }
  if (auto range = file_range()) return range->file->Read(range->offset + offset, out);
  if (!is_owned()) return BugError("part of a deferred tensor was asked for");
  if (!out.empty()) std::memcpy(out.data(), bytes().data() + offset, out.size());
  return OkStatus();
}

Status Tensor::CopyTo(ByteSink& sink) const {
  if (is_owned()) return sink.Write(0, bytes());
  Buffer chunk(std::min(kChunk, byte_size_));
  for (int64_t done = 0; done < byte_size_; done += kChunk) {
    std::span<std::byte> part(chunk.data(), static_cast<size_t>(std::min(kChunk, byte_size_ - done)));
    RETURN_IF_ERROR(ReadBytes(done, part));
    RETURN_IF_ERROR(sink.Write(done, part));
  }
  return OkStatus();
}

Status MemorySink::Write(int64_t offset, std::span<const std::byte> bytes) {
  if (offset < 0 || static_cast<size_t>(offset) > out_.size() ||
      bytes.size() > out_.size() - static_cast<size_t>(offset)) {
    return BugError("a producer wrote {} bytes at {} of {}", bytes.size(), offset, out_.size());
  }
  if (!bytes.empty()) std::memcpy(out_.data() + offset, bytes.data(), bytes.size());
  return OkStatus();
}

std::string Describe(const Tensor& tensor) {
  return fmt::format("{}[{}]", NameOf(tensor.dtype()), ToString(tensor.dims()));
}

}  // namespace quant
