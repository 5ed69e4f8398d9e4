// Weights per second of QuantizeWeight, from memory and from a file in the page cache, on one thread. The budget for
// int4, symmetric, groups of 32, [K, N] from memory is 500 M weights/s.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <string>

#include "libquant/base/parallel.h"
#include "libquant/numerics/weight_producer.h"

namespace quant {
namespace {

constexpr int64_t kSide = 4096;

Tensor Gaussian(int64_t rows, int64_t columns) {
  Tensor t = Tensor::Allocate(DType::kFloat, {rows, columns});
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02f);
  for (float& v : t.mutable_data<float>()) v = normal(random);
  return t;
}

// The same weight as a range of a file.
Tensor OnDisk(const Tensor& t) {
  std::string path = "/tmp/numerics_bench_XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0) return {};
  const auto bytes = t.bytes();
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n <= 0) return {};
    done += static_cast<size_t>(n);
  }
  close(fd);
  auto file = File::Open(path);
  unlink(path.c_str());
  if (!file.ok()) return {};
  return Tensor::FromFile(t.dtype(), t.dims(), {*file, 0, t.byte_size()});
}

struct Case {
  const char* format = "int4";
  Granularity granularity = Granularity::kGroup;
  int64_t group_size = 32;
  Scheme scheme = Scheme::kSymmetric;
  CodeLayout layout = CodeLayout::kReductionMajor;
  bool negative = false;
  bool transposed = false;  // the source is [N, K]
  bool file = false;
  int64_t columns = kSide;
};

void Run(benchmark::State& state, const Case& c) {
  SetThreads(1);
  Tensor weight = Gaussian(kSide, c.columns);
  if (c.file) weight = OnDisk(weight);
  QuantSpec spec;
  spec.format = FindFormat(c.format);
  spec.granularity = c.granularity;
  spec.group_size = c.group_size;
  spec.scheme = c.scheme;
  spec.allow_negative_scales = c.negative;
  const MatrixView view =
      c.transposed ? MatrixView{kSide, c.columns, c.columns, 1} : MatrixView{c.columns, kSide, 1, c.columns};
  auto q = QuantizeWeight("w", weight, view, spec, c.layout);
  if (!q.ok()) {
    state.SkipWithError(Message(q.status()).c_str());
    return;
  }
  std::vector<Tensor> outputs = {q->codes, q->scales};
  if (q->zero_points) outputs.push_back(*q->zero_points);
  std::vector<Tensor> memory;
  std::vector<MemorySink> sinks;
  for (const Tensor& t : outputs) {
    memory.push_back(Tensor::Allocate(t.dtype(), t.dims()));
    sinks.emplace_back(memory.back().mutable_bytes());
  }
  std::vector<ByteSink*> pointers;
  for (MemorySink& sink : sinks) pointers.push_back(&sink);
  for (auto _ : state) {
    const Status status = q->codes.deferred()->producer->Produce(pointers);
    if (!status.ok()) state.SkipWithError(Message(status).c_str());
    benchmark::ClobberMemory();
  }
  state.counters["weights/s"] =
      benchmark::Counter(static_cast<double>(weight.size()), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(Run, int4_g32, Case{});
BENCHMARK_CAPTURE(Run, int4_g128, Case{.group_size = 128});
BENCHMARK_CAPTURE(Run, int4_g32_odd_columns, Case{.columns = 4095});
BENCHMARK_CAPTURE(Run, int4_g32_negative_scales, Case{.negative = true});
BENCHMARK_CAPTURE(Run, int4_g32_asymmetric, Case{.scheme = Scheme::kAsymmetric});
BENCHMARK_CAPTURE(Run, int8_g32, Case{.format = "int8"});
BENCHMARK_CAPTURE(Run, int8_channel, Case{.format = "int8", .granularity = Granularity::kChannel});
BENCHMARK_CAPTURE(Run, int8_tensor, Case{.format = "int8", .granularity = Granularity::kTensor});
BENCHMARK_CAPTURE(Run, int4_g32_nbits, Case{.layout = CodeLayout::kNBits});
BENCHMARK_CAPTURE(Run, int4_g32_from_nk, Case{.transposed = true});
BENCHMARK_CAPTURE(Run, int4_g32_nk_to_nk, Case{.layout = CodeLayout::kChannelMajor, .transposed = true});
BENCHMARK_CAPTURE(Run, int4_g32_file, Case{.file = true});
BENCHMARK_CAPTURE(Run, int4_g32_nbits_file, Case{.layout = CodeLayout::kNBits, .file = true});
BENCHMARK_CAPTURE(Run, int4_g32_from_nk_file, Case{.transposed = true, .file = true});
BENCHMARK_CAPTURE(Run, int8_channel_file, Case{.format = "int8", .granularity = Granularity::kChannel, .file = true});

}  // namespace
}  // namespace quant

BENCHMARK_MAIN();
