#include "libquant/ir/tensor.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tests/catch.h"

namespace quant {
namespace {

TEST_CASE("bytes of a type and dims") {
  const auto bytes = [](DType t, Dims dims) { return BytesFor(t, dims); };
  CHECK(bytes(DType::kFloat, {2, 3}) == 24);
  CHECK(bytes(DType::kInt4, {3, 3}) == 5);
  CHECK(bytes(DType::kUint2, {5}) == 2);
  CHECK(bytes(DType::kFloat, {}) == 4);
  CHECK(bytes(DType::kString, {1}) == std::nullopt);
  CHECK(bytes(DType::kFloat, {INT64_MAX / 2}) == std::nullopt);
  CHECK(bytes(DType::kFloat, {-1}) == std::nullopt);
}

TEST_CASE("types are found by ONNX's number and by name") {
  for (int32_t i = 1; i <= 26; ++i) {
    const DType t = DTypeFromNumber(i);
    REQUIRE(static_cast<int32_t>(t) == i);
    CHECK(DTypeFromName(NameOf(t)) == t);
  }
  CHECK(DTypeFromNumber(0) == DType::kUndefined);
  CHECK(DTypeFromNumber(27) == DType::kUndefined);
  CHECK(DTypeFromNumber(-5) == DType::kUndefined);
}

class CountingProducer : public TensorProducer {
 public:
  int output_count() const override { return 2; }
  Status Produce(std::span<ByteSink* const> sinks) const override {
    const std::byte a[] = {std::byte{1}, std::byte{2}};
    RETURN_IF_ERROR(sinks[0]->Write(0, a));
    return sinks[1]->Write(0, std::span(a).subspan(1));
  }
};

TEST_CASE("a deferred tensor is made when asked, and knows its payload") {
  auto producer = std::make_shared<CountingProducer>();
  const Tensor codes = Tensor::FromProducer(DType::kUint8, {2}, {producer, 0});
  const Tensor scales = Tensor::FromProducer(DType::kUint8, {1}, {producer, 1});
  CHECK(codes.Materialize()->data<uint8_t>()[1] == 2);
  CHECK(scales.Materialize()->data<uint8_t>()[0] == 2);
  CHECK(codes.SharesPayloadWith(codes.Reshaped({1, 2})));
  CHECK_FALSE(codes.SharesPayloadWith(scales));
}

TEST_CASE("a sink refuses what is outside") {
  std::byte memory[4];
  MemorySink sink(memory);
  const std::byte three[3] = {};
  CHECK(sink.Write(1, three).ok());
  CHECK_FALSE(sink.Write(2, three).ok());
  CHECK_FALSE(sink.Write(-1, three).ok());
}

TEST_CASE("a bool that is neither 0 nor 1 is made 1") {
  Tensor tensor = Tensor::Allocate(DType::kBool, {4});
  const std::array<std::byte, 4> bytes = {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{255}};
  std::copy(bytes.begin(), bytes.end(), tensor.mutable_bytes().begin());
  const auto sound = tensor.Materialize();
  REQUIRE(sound.ok());
  CHECK(std::vector<bool>(sound->data<bool>().begin(), sound->data<bool>().end()) ==
        std::vector<bool>{false, true, true, true});
  CHECK(tensor.bytes()[3] == std::byte{255});  // others may hold them
}

}  // namespace
}  // namespace quant
