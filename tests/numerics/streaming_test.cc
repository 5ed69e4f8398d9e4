// What goes wrong with a weight, and what it costs in memory.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <limits>

#include "libquant/base/parallel.h"
#include "libquant/numerics/weight_producer.h"
#include "tests/catch.h"
#include "tests/numerics/weight_fixture.h"

namespace quant {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr CodeLayout kLayouts[] = {CodeLayout::kReductionMajor, CodeLayout::kChannelMajor, CodeLayout::kNBits};
constexpr Granularity kGranularities[] = {Granularity::kGroup, Granularity::kChannel, Granularity::kTensor};

// Freed memory is kept for a while then, so that its amount says nothing.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

QuantSpec Spec(Granularity granularity) {
  QuantSpec spec;
  spec.format = FindFormat("int4");
  spec.granularity = granularity;
  return spec;
}

Status StatusOf(const TestWeight& w, const QuantSpec& spec, CodeLayout layout) {
  const auto q = QuantizeWeight("layer.7/weight", w.tensor, w.view, spec, layout);
  return q.ok() ? Produce(*q).status : q.status();
}

bool Mentions(const Status& status, const std::string& what) { return Message(status).find(what) != std::string::npos; }

TEST_CASE("NaN and infinity are counted over the whole weight, and name it") {
  // More than one tile, and with 4000 rows more than one per channel.
  std::vector<float> values = MixedValues(4000 * 300, 2);
  values[5] = kNan;
  values[600001] = kInfinity;
  values[600002] = kInfinity;
  values[1199999] = -kInfinity;
  for (const bool rows : {true, false}) {
    const TestWeight w = MakeWeight(4000, 300, rows, values);
    for (const Granularity granularity : kGranularities) {
      for (const CodeLayout layout : kLayouts) {
        const Status status = StatusOf(w, Spec(granularity), layout);
        CHECK(ExitCode(status) == 3);
        CHECK(Mentions(status, "layer.7/weight"));
        CHECK(Mentions(status, "4 NaN or infinite"));
      }
    }
  }
}

struct Fault {
  int64_t c, k;
  float value;
};

// The largest magnitude among the values that share a scale with (c, k).
float LargestNear(const reference::Weight& w, Granularity granularity, int64_t c, int64_t k) {
  const bool all = granularity == Granularity::kTensor;
  const bool group = granularity == Granularity::kGroup;
  const int64_t first = group ? k / 32 * 32 : 0;
  const int64_t last = group ? std::min(first + 32, w.reduction) : w.reduction;
  float largest = 0;
  for (int64_t i = all ? 0 : c; i < (all ? w.channels : c + 1); ++i) {
    for (int64_t j = first; j < last; ++j) largest = std::max(largest, std::fabs(w.at(i, j)));
  }
  return largest;
}

// A weight with faults, and the plain weight that clamping them must be the same as.
TestWeight MakeFaulty(bool rows, Granularity granularity, uint32_t seed) {
  // Large enough for tiles that hold only part of a channel; once the largest value is negative, once positive.
  const int64_t k = 5000;
  const int64_t n = 70;
  std::vector<float> values = MixedValues(k * n, seed);
  values[1234] = rows ? 1e5f : -1e5f;
  const TestWeight w = MakeWeight(k, n, rows, values);
  const auto index = [&](const Fault& f) {
    return static_cast<size_t>(f.c * w.view.channel_stride + f.k * w.view.reduction_stride);
  };
  const std::vector<Fault> faults = {{0, 0, kInfinity},    {0, 1, kNan},          {3, 40, -kInfinity},
                                     {3, 41, kInfinity},   {69, 4999, kInfinity}, {69, 4500, -kInfinity},
                                     {69, 33, -kInfinity}, {17, 2000, kNan}};
  std::vector<float> broken = w.stored;
  std::vector<float> finite = w.stored;
  for (const Fault& f : faults) {
    broken[index(f)] = f.value;
    finite[index(f)] = 0;
  }
  std::vector<float> mended = finite;
  const reference::Weight plain = MakeWeight(k, n, rows, finite).plain;
  for (const Fault& f : faults) {
    if (std::isinf(f.value)) mended[index(f)] = std::copysign(LargestNear(plain, granularity, f.c, f.k), f.value);
  }
  TestWeight out = MakeWeight(k, n, rows, mended);
  out.tensor = MakeWeight(k, n, rows, broken).tensor;
  return out;
}

TEST_CASE("clamped: NaN as 0, infinities as the largest finite magnitude of their group") {
  for (const bool rows : {true, false}) {
    for (const Scheme scheme : {Scheme::kSymmetric, Scheme::kAsymmetric}) {
      for (const Granularity granularity : kGranularities) {
        QuantSpec spec = Spec(granularity);
        spec.scheme = scheme;
        spec.non_finite = NonFinite::kClamp;
        spec.allow_negative_scales = true;
        const TestWeight w = MakeFaulty(rows, granularity, 6);
        for (const CodeLayout layout : kLayouts) {
          INFO(rows << " " << static_cast<int>(scheme) << " " << static_cast<int>(granularity) << " "
                    << static_cast<int>(layout));
          CHECK(Agrees(w, spec, layout));
          CHECK(Agrees(OnDisk(w), spec, layout));
        }
      }
    }
  }
}

TEST_CASE("what an infinity is clamped to counts when two scales compete") {
  // The negative scale fits 1 and 2 better, the positive one -8.
  TestWeight w = MakeWeight(4, 1, true, {8, -8, 1, 2});
  w.tensor = MakeWeight(4, 1, true, {8, -kInfinity, 1, 2}).tensor;
  for (const Granularity granularity : kGranularities) {
    QuantSpec spec = Spec(granularity);
    spec.non_finite = NonFinite::kClamp;
    spec.allow_negative_scales = true;
    CHECK(Agrees(w, spec, CodeLayout::kReductionMajor));
  }
}

TEST_CASE("a scale too large for float16 names the weight") {
  std::vector<float> values(64 * 8, 1.0f);
  values[77] = 1e6f;
  for (const Granularity granularity : kGranularities) {
    QuantSpec spec = Spec(granularity);
    spec.scale_dtype = DType::kFloat16;
    const Status status = StatusOf(MakeWeight(64, 8, true, values), spec, CodeLayout::kReductionMajor);
    CHECK(ExitCode(status) == 4);
    CHECK(Mentions(status, "layer.7/weight"));
  }
}

TEST_CASE("what cannot be quantized is refused before anything is read") {
  const TestWeight w = MakeWeight(8, 4, true, MixedValues(32, 1));
  QuantSpec spec = Spec(Granularity::kGroup);
  spec.group_size = 3;
  CHECK(ExitCode(StatusOf(w, spec, CodeLayout::kNBits)) == 4);
  spec.group_size = int64_t{1} << 62;
  CHECK(ExitCode(StatusOf(w, spec, CodeLayout::kNBits)) == 4);
  CHECK(StatusOf(w, spec, CodeLayout::kReductionMajor).ok());  // one short group
  spec.group_size = 0;
  CHECK(ExitCode(StatusOf(w, spec, CodeLayout::kReductionMajor)) == 70);
  spec = Spec(Granularity::kGroup);
  spec.format = FindFormat("int16");
  CHECK(ExitCode(StatusOf(w, spec, CodeLayout::kReductionMajor)) == 4);
  TestWeight doubles = w;
  doubles.tensor = Tensor::Allocate(DType::kDouble, {8, 4});
  CHECK(ExitCode(StatusOf(doubles, Spec(Granularity::kGroup), CodeLayout::kReductionMajor)) == 4);
  for (const MatrixView view : {MatrixView{4, 9, 1, 4}, MatrixView{4, 8, 2, 8}, MatrixView{4, 8, 1, 5},
                                MatrixView{-4, -8, 1, -4}, MatrixView{8, 4, 1, 4}}) {
    TestWeight bad = w;
    bad.view = view;
    CHECK(ExitCode(StatusOf(bad, Spec(Granularity::kGroup), CodeLayout::kReductionMajor)) == 70);
  }
  TestWeight short_file = OnDisk(w);
  FileRange range = *short_file.tensor.file_range();
  range.length = 100;
  short_file.tensor = Tensor::FromFile(DType::kFloat, {8, 4}, range);
  CHECK(ExitCode(StatusOf(short_file, Spec(Granularity::kGroup), CodeLayout::kReductionMajor)) == 3);
}

TEST_CASE("a sink that fails ends the run with its error") {
  struct Full : ByteSink {
    Status Write(int64_t, std::span<const std::byte>) override { return OutputError("disk full"); }
  } full;
  const TestWeight w = MakeWeight(1000, 2000, true, MixedValues(2000000, 1));
  const auto q = QuantizeWeight("w", w.tensor, w.view, Spec(Granularity::kGroup), CodeLayout::kReductionMajor).value();
  std::vector<ByteSink*> sinks = {&full, &full};
  CHECK(ExitCode(q.codes.deferred()->producer->Produce(sinks)) == 5);
}

int64_t StatusField(const std::string& field) {
  std::ifstream in("/proc/self/status");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(field, 0) == 0) return std::stoll(line.substr(field.size())) * 1024;
  }
  return -1;
}

TEST_CASE("a 400 MB weight is quantized in less than 64 MiB") {
  struct Drop : ByteSink {
    std::atomic<int64_t> written{0};
    Status Write(int64_t, std::span<const std::byte> bytes) override {
      written += static_cast<int64_t>(bytes.size());
      return OkStatus();
    }
  };
  std::string path = "/tmp/nibble_sparse_XXXXXX";
  const int fd = mkstemp(path.data());
  REQUIRE(fd >= 0);
  const int64_t size = (kSanitized ? int64_t{20} : int64_t{400}) << 20;
  REQUIRE(ftruncate(fd, size) == 0);
  close(fd);
  auto file = File::Open(path);
  unlink(path.c_str());
  REQUIRE(file.ok());
  const int64_t k = 5120;
  const int64_t n = size / 4 / k;
  SetThreads(8);
  for (const bool rows : {true, false}) {
    const Tensor t = Tensor::FromFile(DType::kFloat, rows ? Dims{k, n} : Dims{n, k}, {*file, 0, size});
    const MatrixView view = rows ? MatrixView{n, k, 1, n} : MatrixView{n, k, k, 1};
    for (const Granularity granularity : kGranularities) {
      for (const CodeLayout layout : {CodeLayout::kReductionMajor, CodeLayout::kNBits}) {
        std::ofstream("/proc/self/clear_refs") << "5";  // the high-water mark starts anew
        const int64_t before = StatusField("VmRSS:");
        const auto q = QuantizeWeight("w", t, view, Spec(granularity), layout).value();
        Drop codes;
        Drop scales;
        std::vector<ByteSink*> sinks = {&codes, &scales};
        REQUIRE(q.codes.deferred()->producer->Produce(sinks).ok());
        CHECK(codes.written == q.codes.byte_size());
        CHECK(scales.written == q.scales.byte_size());
        const int64_t growth = StatusField("VmHWM:") - before;
        INFO(rows << " " << static_cast<int>(granularity) << " " << static_cast<int>(layout));
        CHECK((kSanitized || growth < int64_t{64} << 20));
      }
    }
  }
  SetThreads(0);
}

}  // namespace
}  // namespace quant
