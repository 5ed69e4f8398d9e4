// GroupQueryAttention where ONNX Runtime can't be asked: several samples with new keys behind pasts of different
// lengths, and inputs that don't fit.
#include "tests/ops/run_op.h"

namespace quant {
namespace {

const OpDef& Gqa() { return *FindOp("com.microsoft", "GroupQueryAttention"); }
const AttributeList kHeads = {{"num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}, {"do_rotary", int64_t{1}}};

// Sample b of a tensor, alone.
Tensor Sample(const Tensor& t, int64_t b) {
  Dims dims = t.dims();
  const int64_t size = t.size() / dims[0];
  dims[0] = 1;
  return Make<float>(dims, {t.data<float>().data() + b * size, t.data<float>().data() + (b + 1) * size});
}

// Of a prompt of 3 steps behind pasts of up to 5, in the order of the operator's inputs.
std::vector<Tensor> Inputs() {
  return {RandomTensor({2, 3, 32}, 1),   RandomTensor({2, 3, 16}, 2),   RandomTensor({2, 3, 16}, 3),
          RandomTensor({2, 2, 5, 8}, 4), RandomTensor({2, 2, 5, 8}, 5), Make<int32_t>({2}, {7, 4}),
          Make<int32_t>({}, {8}),        RandomTensor({9, 4}, 6),       RandomTensor({9, 4}, 7)};
}

std::vector<Tensor> With(size_t i, const Tensor& t) {
  std::vector<Tensor> inputs = Inputs();
  inputs.resize(std::max(inputs.size(), i + 1));
  inputs[i] = t;
  return inputs;
}

}  // namespace

TEST_CASE("Samples of GroupQueryAttention with pasts of their own don't see each other's") {
  const std::vector<Tensor> inputs = Inputs();
  const auto both = RunOp(Gqa(), inputs, {kHeads, 1, 3});
  REQUIRE(both.ok());
  for (int64_t b = 0; b < 2; ++b) {
    std::vector<Tensor> one = inputs;
    for (size_t i = 0; i < 5; ++i) one[i] = Sample(inputs[i], b);
    one[5] = Make<int32_t>({1}, {inputs[5].data<int32_t>()[static_cast<size_t>(b)]});
    const auto alone = RunOp(Gqa(), one, {kHeads, 1, 3});
    REQUIRE(alone.ok());
    for (size_t i = 0; i < 3; ++i) {
      const Tensor part = Sample((*both)[i], b);
      REQUIRE(part.dims() == (*alone)[i].dims());
      for (size_t e = 0; e < static_cast<size_t>(part.size()); ++e) {
        REQUIRE(part.data<float>()[e] == Approx((*alone)[i].data<float>()[e]).margin(1e-6));
      }
    }
  }
  // What lies behind a sample's own past doesn't matter.
  std::vector<Tensor> changed = inputs;
  changed[3] = Tensor::Of<float>(inputs[3].dims(), inputs[3].data<float>());
  changed[3].mutable_data<float>()[2 * 5 * 8 + 2 * 8] = 1e30F;  // sample 1, row 2
  const auto again = RunOp(Gqa(), changed, {kHeads, 1, 3});
  REQUIRE(again.ok());
  for (size_t e = 0; e < static_cast<size_t>((*both)[0].size()); ++e) {
    REQUIRE((*again)[0].data<float>()[e] == (*both)[0].data<float>()[e]);
  }
  // The present of the second sample ends in zeros.
  CHECK((*both)[1].dims() == Dims{2, 2, 8, 8});
  CHECK((*both)[1].data<float>()[2 * 8 * 8 + 5 * 8] == 0);
  CHECK((*both)[1].data<float>()[2 * 8 * 8 + 5 * 8 - 1] != 0);
}

TEST_CASE("GroupQueryAttention gives the same bytes on any number of threads") {
  RequireThreadsAgree(Gqa(), Inputs(), {kHeads, 1, 1});
}

TEST_CASE("GroupQueryAttention refuses what doesn't fit") {
  const OpCall call = {kHeads, 1, 3};
  REQUIRE(RunOp(Gqa(), Inputs(), call).ok());
  RequireRefused(Gqa(), {Inputs()[0]}, call);
  RequireRefused(Gqa(), With(0, RandomTensor({2, 3, 33}, 1)), call);
  RequireRefused(Gqa(), With(0, RandomTensor({2, 96}, 1)), call);
  RequireRefused(Gqa(), With(1, {}), call);
  RequireRefused(Gqa(), With(2, RandomTensor({2, 4, 16}, 1)), call);
  RequireRefused(Gqa(), With(3, {}), call);
  RequireRefused(Gqa(), With(4, RandomTensor({2, 2, 6, 8}, 1)), call);
  RequireRefused(Gqa(), With(4, CastTo<double>(Inputs()[4])), call);
  for (int32_t last : {-1, 1, 8, 1 << 30, std::numeric_limits<int32_t>::max()}) {
    RequireRefused(Gqa(), With(5, Make<int32_t>({2}, {7, last})), call);
  }
  RequireRefused(Gqa(), With(5, Make<int32_t>({1}, {7})), call);
  RequireRefused(Gqa(), With(5, Make<int64_t>({2}, {7, 4})), call);
  for (int32_t total : {-1, 0, 2, 9, std::numeric_limits<int32_t>::max()}) {
    RequireRefused(Gqa(), With(6, Make<int32_t>({}, {total})), call);
  }
  RequireRefused(Gqa(), With(6, Make<int32_t>({2}, {8, 8})), call);
  RequireRefused(Gqa(), With(7, RandomTensor({7, 4}, 1)), call);
  std::vector<Tensor> few = With(7, RandomTensor({7, 4}, 1));
  few[8] = few[7];
  RequireRefused(Gqa(), few, call);
  RequireRefused(Gqa(), With(8, {}), call);
  RequireRefused(Gqa(), With(9, Make<int64_t>({2, 3}, {0, 1, 2, 3, 4, 9})), call);
  RequireRefused(Gqa(), With(9, Make<int64_t>({2, 3}, {0, 1, 2, 3, 4, -1})), call);
  RequireRefused(Gqa(), With(9, Make<int64_t>({3}, {0, 1, 2})), call);
  RequireRefused(Gqa(), With(10, RandomTensor({1, 1, 3, 7}, 1)), call);
  RequireRefused(Gqa(), With(10, RandomTensor({3, 1, 3, 8}, 1)), call);
  RequireRefused(Gqa(), With(11, RandomTensor({3}, 1)), call);
  RequireRefused(Gqa(), With(14, RandomTensor({8}, 1)), call);
  RequireRefused(Gqa(), Inputs(), {kHeads, 1, 4});
  const auto attributes = [](std::string name, AttributeValue value) {
    AttributeList list = kHeads;
    for (auto& [known, old] : list) {
      if (known == name) old = value;
    }
    list.emplace_back(std::move(name), std::move(value));
    return OpCall{list, 1, 3};
  };
  for (int64_t heads : {int64_t{0}, int64_t{-4}, int64_t{5}, std::numeric_limits<int64_t>::max()}) {
    RequireRefused(Gqa(), Inputs(), attributes("num_heads", heads));
    RequireRefused(Gqa(), Inputs(), attributes("kv_num_heads", heads));
  }
  RequireRefused(Gqa(), Inputs(), attributes("k_quant_type", std::string("PER_TENSOR")));
  AttributeList both_ways = kHeads;
  both_ways.emplace_back("causal", int64_t{0});
  both_ways.emplace_back("local_window_size", int64_t{2});
  RequireRefused(Gqa(), Inputs(), {both_ways, 1, 3});
  // A window beyond all numbers is none.
  const Tensor wide = RunOne(Gqa(), Inputs(), attributes("local_window_size", std::numeric_limits<int64_t>::max()));
  CHECK(wide.data<float>()[5] == RunOne(Gqa(), Inputs(), call).data<float>()[5]);
}

}  // namespace quant
