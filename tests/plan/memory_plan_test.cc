#include "libquant/plan/memory_plan.h"

#include <limits>

#include "tests/catch.h"

namespace quant {
namespace {

constexpr int64_t kBillion = 1'000'000'000;

int64_t Weights(int64_t parameters, int64_t bits, int64_t group = 0, int64_t scale_bits = 16) {
  const auto bytes = WeightBytes(parameters, bits, group, scale_bits);
  REQUIRE(bytes.ok());
  return *bytes;
}

int64_t Cache(const CacheSpec& spec) {
  const auto bytes = CacheBytes(spec);
  REQUIRE(bytes.ok());
  return *bytes;
}

Precision Of(const std::string& name, int64_t with_margin) {
  Precision p;
  p.name = name;
  p.weight_bytes = p.total_bytes = p.with_margin = with_margin;
  return p;
}

TEST_CASE("7 billion parameters are 14, 7 and 3.5 GB at fp16, int8 and int4") {
  CHECK(Weights(7 * kBillion, 32) == 28 * kBillion);
  CHECK(Weights(7 * kBillion, 16) == 14 * kBillion);
  CHECK(Weights(7 * kBillion, 8) == 7 * kBillion);
  CHECK(Weights(7 * kBillion, 4) == 3'500'000'000);
  // Groups of 32 with scales of 2 bytes: 4.5 bits each; with 4 bytes, 5 bits. 128: 4.125 bits.
  CHECK(Weights(7 * kBillion, 4, 32) == 3'937'500'000);
  CHECK(Weights(7 * kBillion, 4, 32, 32) == 4'375'000'000);
  CHECK(Weights(7 * kBillion, 4, 128) == 3'609'375'000);
  CHECK(DecimalBytes(Weights(7 * kBillion, 16)) == "14.00 GB");
  CHECK(DecimalBytes(Weights(7 * kBillion, 4)) == "3.50 GB");
}

TEST_CASE("half bytes and short groups are rounded up") {
  CHECK(Weights(3, 4) == 2);
  CHECK(Weights(33, 4, 32) == 17 + 4);
  CHECK(Weights(1, 4, 32) == 1 + 2);
}

TEST_CASE("32 layers, hidden 4096, sequence 2048 at fp16 are 1 GiB of KV cache") {
  CacheSpec spec{.layers = 32, .hidden = 4096, .sequence = 2048};
  constexpr int64_t kGiB = int64_t{1} << 30;
  CHECK(Cache(spec) == 2LL * 32 * 2048 * 4096 * 2);
  CHECK(Cache(spec) == kGiB);
  SECTION("8 of 32 heads") {
    spec.heads = 32;
    spec.kv_heads = 8;
    CHECK(Cache(spec) == kGiB / 4);
  }
  SECTION("as many heads of keys as there are") {
    spec.heads = spec.kv_heads = 32;
    CHECK(Cache(spec) == kGiB);
  }
  SECTION("four sequences") {
    spec.batch = 4;
    CHECK(Cache(spec) == 4 * kGiB);
  }
  SECTION("8 bits") {
    spec.bits = 8;
    CHECK(Cache(spec) == kGiB / 2);
  }
  SECTION("all of it") {
    spec = {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .sequence = 8192, .batch = 2, .bits = 8};
    CHECK(Cache(spec) == kGiB);
  }
  SECTION("heads that don't divide") {
    spec.heads = 3;
    CHECK(ExitCode(CacheBytes(spec).status()) == 2);
    spec.heads = 32;
    spec.kv_heads = 5;
    CHECK(ExitCode(CacheBytes(spec).status()) == 2);
  }
}

TEST_CASE("what 64 bits don't hold is an error") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(ExitCode(WeightBytes(kMost, 32, 0, 16).status()) == 2);
  CHECK(WeightBytes(kMost, 4, 0, 16).ok());
  CHECK(ExitCode(WeightBytes(kMost, 4, 1, 32).status()) == 2);
  CHECK(ExitCode(CacheBytes({.layers = kMost, .hidden = 2, .sequence = 2}).status()) == 2);
  Precision p;
  p.weight_bytes = kMost;
  CHECK(AddUp(p, 0).ok());
  CHECK(p.with_margin == kMost);
  CHECK(ExitCode(AddUp(p, 0.2)) == 2);
  p.cache_bytes = 1;
  CHECK(ExitCode(AddUp(p, 0)) == 2);
}

TEST_CASE("counts are whole numbers, as people write them") {
  CHECK(*ParseCount("--n", "7e9") == 7 * kBillion);
  CHECK(*ParseCount("--n", "1.5e9") == 1'500'000'000);
  CHECK(*ParseCount("--n", "9223372036854775807") == std::numeric_limits<int64_t>::max());
  for (const char* text :
       {"", "0", "-1", "1e30", "1e400", "9223372036854775808", "7.5", "nan", "inf", "7 e9", "0.1e-5"}) {
    INFO(text);
    CHECK(ExitCode(ParseCount("--n", text).status()) == 2);
  }
}

TEST_CASE("the margin goes on the sum of all three, rounded up") {
  Precision p;
  p.weight_bytes = 100;
  p.cache_bytes = 20;
  p.activation_bytes = 7;
  REQUIRE(AddUp(p, 0.2).ok());
  CHECK(p.total_bytes == 127);
  CHECK(p.with_margin == 153);  // 152.4
  REQUIRE(AddUp(p, 0).ok());
  CHECK(p.with_margin == 127);
}

TEST_CASE("the most precise that fits is chosen, and what fits in any case before what fits at best") {
  const Device device{"phone", "a phone", 100, 150};
  const std::vector<Precision> all = {Of("fp32", 151), Of("fp16", 150), Of("int8", 100), Of("int4", 50)};
  CHECK(FitOf(100, device) == Fit::kFits);
  CHECK(FitOf(101, device) == Fit::kAtBest);
  CHECK(FitOf(151, device) == Fit::kNo);
  const Choice choice = Choose(all, device);
  REQUIRE(choice.precision);
  CHECK(*choice.precision == 2);
  CHECK(Explain(choice, all, device) ==
        "int8, the most precise that fits: it needs 100 B of 100 B, fp16 would need 150 B");
  const Choice tight = Choose({all[0], all[1]}, device);
  REQUIRE(tight.precision);
  CHECK(*tight.precision == 1);
  CHECK(tight.fit == Fit::kAtBest);
  const Choice none = Choose({all[0]}, device);
  CHECK(!none.precision);
  CHECK(Explain(none, {all[0]}, device) ==
        "nothing fits. Even fp32 needs 151 B of 150 B; the weights alone are 151 B: a smaller model is needed");
}

}  // namespace
}  // namespace quant
