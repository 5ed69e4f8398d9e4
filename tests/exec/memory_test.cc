#include <fstream>
#include <string>

#include "libquant/exec/session.h"
#include "tests/catch.h"
#include "tests/exec/small_model.h"

namespace quant {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Peak resident bytes of this process so far.
int64_t PeakResident() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

// The sanitizers keep freed memory for a while: then there is nothing to be learnt from the peak.
void CheckPeak(int64_t before, int64_t limit) {
#if defined(__SANITIZE_ADDRESS__)
  WARN("memory is not measured under sanitizers: " << PeakResident() - before << " of " << limit);
#else
  CHECK(PeakResident() - before < limit);
#endif
}

TEST_CASE("tensors are freed after their last use, and buffers used again") {
  // 40 steps of 32 MiB each: 1.25 GiB if they were kept.
  SmallModel m;
  constexpr int64_t kElements = 8 * kMiB;
  ValueId v = m.Input("x", {{kElements, {}}});
  for (int i = 0; i < 40; ++i) v = m.Op("Neg", {v}, fmt::format("v{}", i));
  m.Output(v);
  auto session = Session::Create(m.model);
  REQUIRE(session.ok());
  Tensor x = Tensor::Allocate(DType::kFloat, {kElements});
  for (float& f : x.mutable_data<float>()) f = 1.5f;
  const int64_t before = PeakResident();
  REQUIRE(before > 0);
  for (int run = 0; run < 3; ++run) {
    auto out = (*session)->Run({{"x", x}});
    REQUIRE(out.ok());
    CHECK((*out)[0].second.data<float>()[kElements - 1] == 1.5f);
  }
  CheckPeak(before, 160 * kMiB);
}

TEST_CASE("a weight that only folded nodes read is let go") {
  // 8 weights of 32 MiB, each folded to a scalar.
  struct Filler : TensorProducer {
    int output_count() const override { return 1; }
    Status Produce(std::span<ByteSink* const> sinks) const override {
      const std::vector<float> piece(kMiB / 4, 1.0f);
      for (int64_t at = 0; at < 32 * kMiB; at += kMiB) {
        RETURN_IF_ERROR(sinks[0]->Write(at, std::as_bytes(std::span(piece))));
      }
      return OkStatus();
    }
  };
  SmallModel m;
  ValueId sum = m.Input("x", {});
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("w{}", i);
    const ValueId w =
        m.Constant(name, Tensor::FromProducer(DType::kFloat, {8 * kMiB}, {std::make_shared<Filler>(), 0}));
    Attributes attributes;
    attributes.Set("keepdims", int64_t{0});
    sum = m.Op("Add", {sum, m.Op("ReduceMax", {w}, fmt::format("max{}", i), attributes)}, fmt::format("sum{}", i));
  }
  m.Output(sum);
  const int64_t before = PeakResident();
  auto session = Session::Create(m.model);
  REQUIRE(session.ok());
  auto out = (*session)->Run({{"x", Tensor::Scalar(0.0f)}});
  REQUIRE(out.ok());
  CHECK((*out)[0].second.data<float>()[0] == 8);
  CheckPeak(before, 160 * kMiB);
}

}  // namespace
}  // namespace quant
