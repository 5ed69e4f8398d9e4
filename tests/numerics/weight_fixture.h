// Weights for tests: values with ties, zeros and outliers, as tensors in either layout, and sinks that see that every
// byte is written exactly once.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "libquant/numerics/weight_producer.h"
#include "tests/catch.h"
#include "tests/numerics/reference.h"

namespace quant {

class OnceSink : public ByteSink {
 public:
  explicit OnceSink(int64_t size) : bytes(static_cast<size_t>(size)), counts_(static_cast<size_t>(size)) {}
  Status Write(int64_t offset, std::span<const std::byte> data) override {
    if (offset < 0 || static_cast<size_t>(offset) + data.size() > bytes.size()) return BugError("outside");
    std::memcpy(bytes.data() + offset, data.data(), data.size());
    for (size_t i = 0; i < data.size(); ++i) ++counts_[static_cast<size_t>(offset) + i];
    return OkStatus();
  }
  bool whole() const {
    for (const auto& count : counts_) {
      if (count != 1) return false;
    }
    return true;
  }
  std::vector<uint8_t> bytes;

 private:
  std::vector<std::atomic<uint8_t>> counts_;
};

// Gaussian values; many multiples of half a power of two, so that codes tie; groups of zeros; a few tiny and huge.
inline std::vector<float> MixedValues(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> out(static_cast<size_t>(count));
  size_t i = 0;
  while (i < out.size()) {
    const uint32_t kind = random() % 6;
    const size_t end = std::min(out.size(), i + 1 + random() % 64);
    for (; i < end; ++i) {
      const float v = normal(random);
      out[i] = kind == 0   ? 0
               : kind == 1 ? static_cast<float>(static_cast<int>(random() % 31) - 15) * 0.5f
               : kind == 2 ? v * 1e-42f
               : kind == 3 ? v * 900
               : kind == 4 ? (v > 0 ? 0.375f : -0.375f)
                           : v;
    }
  }
  return out;
}

struct TestWeight {
  reference::Weight plain;
  std::vector<float> stored;
  Tensor tensor;
  MatrixView view;
};

// reduction_rows: the tensor is [K, N], else [N, K]. The values are those that `dtype` can hold.
inline TestWeight MakeWeight(int64_t k, int64_t n, bool reduction_rows, std::vector<float> stored,
                             DType dtype = DType::kFloat) {
  TestWeight w;
  w.tensor = Tensor::Allocate(dtype, reduction_rows ? Dims{k, n} : Dims{n, k});
  for (size_t i = 0; i < stored.size(); ++i) {
    if (dtype == DType::kFloat16) {
      w.tensor.mutable_data<float16>()[i] = float16(stored[i]);
      stored[i] = static_cast<float>(float16(stored[i]));
    } else if (dtype == DType::kBfloat16) {
      w.tensor.mutable_data<bfloat16>()[i] = bfloat16(stored[i]);
      stored[i] = static_cast<float>(bfloat16(stored[i]));
    } else {
      w.tensor.mutable_data<float>()[i] = stored[i];
    }
  }
  w.view = reduction_rows ? MatrixView{n, k, 1, n} : MatrixView{n, k, k, 1};
  w.plain = {n, k, std::vector<float>(stored.size())};
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t i = 0; i < k; ++i) {
      w.plain.values[static_cast<size_t>(c * k + i)] =
          stored[static_cast<size_t>(c * w.view.channel_stride + i * w.view.reduction_stride)];
    }
  }
  w.stored = std::move(stored);
  return w;
}

// A kernel of [outer, n, inner] elements whose channels are its middle axis.
inline TestWeight MakeRuns(int64_t outer, int64_t n, int64_t inner, std::vector<float> stored,
                           DType dtype = DType::kFloat) {
  TestWeight w = MakeWeight(outer * inner, n, true, std::move(stored), dtype);
  w.view = {n, outer * inner, 0, 0, inner};
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t i = 0; i < outer * inner; ++i) {
      w.plain.values[static_cast<size_t>(c * outer * inner + i)] =
          w.stored[static_cast<size_t>((i / inner * n + c) * inner + i % inner)];
    }
  }
  return w;
}

// The same weight as a range of a file, at an odd offset.
inline TestWeight OnDisk(TestWeight w) {
  std::string path = "/tmp/nibble_weight_XXXXXX";
  const int fd = mkstemp(path.data());
  REQUIRE(fd >= 0);
  const auto bytes = w.tensor.bytes();
  REQUIRE(pwrite(fd, bytes.data(), bytes.size(), 13) == static_cast<ssize_t>(bytes.size()));
  close(fd);
  auto file = File::Open(path);
  unlink(path.c_str());
  REQUIRE(file.ok());
  w.tensor = Tensor::FromFile(w.tensor.dtype(), w.tensor.dims(), {*file, 13, w.tensor.byte_size()});
  return w;
}

struct Produced {
  Status status;
  reference::Outputs outputs;
  bool whole = true;
};

inline Produced Produce(const QuantizedWeight& q) {
  OnceSink codes(q.codes.byte_size());
  OnceSink scales(q.scales.byte_size());
  OnceSink zeros(q.zero_points ? q.zero_points->byte_size() : 0);
  std::vector<ByteSink*> sinks = {&codes, &scales};
  if (q.zero_points) sinks.push_back(&zeros);
  Produced out;
  out.status = q.codes.deferred()->producer->Produce(sinks);
  out.whole = codes.whole() && scales.whole() && zeros.whole();
  out.outputs = {codes.bytes, scales.bytes, zeros.bytes};
  return out;
}

// Whether the library and the reference agree byte for byte.
inline bool Agrees(const TestWeight& w, const QuantSpec& spec, CodeLayout layout) {
  const auto q = QuantizeWeight("w", w.tensor, w.view, spec, layout);
  if (!q.ok()) return false;
  const Produced got = Produce(*q);
  const reference::Outputs want = reference::Quantize(w.plain, spec, layout, w.stored, w.view.inner);
  const size_t bits = (want.codes.size() + want.scales.size() + want.zero_points.size()) * 8;
  return got.status.ok() && got.whole && got.outputs.codes == want.codes && got.outputs.scales == want.scales &&
         got.outputs.zero_points == want.zero_points && static_cast<size_t>(q->bits) == bits;
}

}  // namespace quant
