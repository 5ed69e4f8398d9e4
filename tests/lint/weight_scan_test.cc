// The one reading of all weights: the same results from memory, from a file and on any number of threads, in little
// memory.
#include "libquant/lint/weight_scan.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "libquant/base/parallel.h"
#include "tests/catch.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

class TempFile {
 public:
  explicit TempFile(const std::string& name)
      : path_(fs::temp_directory_path() / fmt::format("{}-{}", name, getpid())) {}
  ~TempFile() { fs::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const fs::path& path() const { return path_; }
  Tensor Floats(int64_t count) const {
    const auto file = File::Open(path_.string());
    REQUIRE(file.ok());
    return Tensor::FromFile(DType::kFloat, {count}, {*file, 0, count * 4});
  }

 private:
  fs::path path_;
};

WeightStats StatsOf(const Tensor& tensor) {
  const ScanRequest request{&tensor, true};
  const auto stats = ScanWeights({&request, 1});
  REQUIRE(stats.ok());
  return stats->at(0);
}

int64_t PeakBytes() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

TEST_CASE("a weight of many pieces: counts, median and hash are those of the whole") {
  constexpr int64_t kCount = 3'000'001;  // five pieces and a bit
  std::vector<float> values(kCount);
  for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = 1.0f + static_cast<float>(i) / kCount;
  values[0] = 0;
  values[1'500'000] = -100;
  values[kCount - 1] = std::nanf("");
  const Tensor owned = Tensor::Of<float>({kCount}, values);
  const TempFile file("nibble-scan");
  std::ofstream(file.path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
  const WeightStats a = StatsOf(owned);
  SetThreads(1);
  const WeightStats b = StatsOf(file.Floats(kCount));
  SetThreads(0);
  for (const WeightStats& s : {a, b}) {
    CHECK(s.nans == 1);
    CHECK(s.zeros == 1);
    CHECK(s.largest == 100);
    CHECK(s.median.value_or(0) == Approx(1.5).epsilon(1.0 / 128));
    CHECK_FALSE(s.uniform);
  }
  CHECK(a.hash == b.hash);
  values[2'000'000] += 1;
  CHECK(StatsOf(Tensor::Of<float>({kCount}, values)).hash != a.hash);
}

TEST_CASE("elements that differ only from piece to piece are not uniform") {
  std::vector<float> values(1 << 20, 1.0f);
  CHECK(StatsOf(Tensor::Of<float>({1 << 20}, values)).uniform);
  std::fill(values.begin() + (1 << 19), values.end(), 2.0f);
  CHECK_FALSE(StatsOf(Tensor::Of<float>({1 << 20}, values)).uniform);
}

TEST_CASE("half, bfloat16 and double count as float32 does") {
  const auto check = [](const Tensor& tensor) {
    const WeightStats s = StatsOf(tensor);
    CHECK(s.nans == 1);
    CHECK(s.infinities == 1);
    CHECK(s.zeros == 1);
    CHECK(s.largest == 2);
  };
  const float nan = std::nanf("");
  const float inf = INFINITY;
  check(Tensor::Of<float16>({4}, std::vector{float16(nan), float16(-inf), float16(0.0f), float16(2.0f)}));
  check(Tensor::Of<bfloat16>({4}, std::vector{bfloat16(nan), bfloat16(inf), bfloat16(-0.0f), bfloat16(-2.0f)}));
  check(Tensor::Of<double>({4}, std::vector<double>{nan, inf, 0.0, 2.0}));
  const WeightStats wide = StatsOf(Tensor::Of<double>({2}, std::vector<double>{1e300, 1e-300}));
  CHECK(wide.infinities == 0);
  CHECK(wide.half_overflows == 1);
  CHECK(wide.half_underflows == 1);
}

TEST_CASE("no elements, and types that are not looked into") {
  CHECK(StatsOf(Tensor::Allocate(DType::kFloat, {0, 3})).zeros == 0);
  const std::vector<int64_t> ints = {-5, 7};
  CHECK(StatsOf(Tensor::Of<int64_t>({2}, ints)).least == -5);
  CHECK(StatsOf(Tensor::Of<int64_t>({2}, ints)).most == 7);
}

TEST_CASE("a large weight in a file is read in little memory") {
  constexpr int64_t kBytes = int64_t{512} << 20;
  const TempFile file("nibble-scan-large");
  std::ofstream(file.path()).close();
  fs::resize_file(file.path(), kBytes);  // a hole: reads as zeros
  const int64_t before = PeakBytes();
  const WeightStats s = StatsOf(file.Floats(kBytes / 4));
  CHECK(s.zeros == kBytes / 4);
  CHECK(PeakBytes() - before < (int64_t{48} << 20));
}

TEST_CASE("a file that got shorter is an error of the data") {
  const TempFile file("nibble-scan-short");
  std::ofstream(file.path()) << std::string(4096, 'x');
  const Tensor tensor = file.Floats(1024);
  fs::resize_file(file.path(), 100);
  const ScanRequest request{&tensor, false};
  CHECK(ExitCode(ScanWeights({&request, 1}).status()) == 3);
}

}  // namespace
}  // namespace quant
