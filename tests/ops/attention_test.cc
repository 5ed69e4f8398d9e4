#include <array>
#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
const OpDef& AttentionOp();
const OpDef& MicrosoftAttentionOp();
const OpDef& MicrosoftRotaryEmbeddingOp();
const OpDef& MultiHeadAttentionOp();
const OpDef& RotaryEmbeddingOp();
const OpDef& TensorScatterOp();

namespace {

// q, k, v of [heads, length, size] by plain loops; added[i, j] goes onto the scores.
std::vector<double> PlainAttention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const std::function<double(int64_t, int64_t)>& added) {
  const int64_t heads = q.dims()[1], queries = q.dims()[2], size = q.dims()[3];
  const int64_t kv_heads = k.dims()[1], keys = k.dims()[2], v_size = v.dims()[3];
  const auto at = [](const Tensor& t, int64_t h, int64_t i, int64_t j) {
    return static_cast<double>(t.data<float>()[static_cast<size_t>((h * t.dims()[2] + i) * t.dims()[3] + j)]);
  };
  std::vector<double> y;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t g = h / (heads / kv_heads);
    for (int64_t i = 0; i < queries; ++i) {
      std::vector<double> weights(static_cast<size_t>(keys));
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t d = 0; d < size; ++d) score += at(q, h, i, d) * at(k, g, j, d);
        sum += weights[static_cast<size_t>(j)] = std::exp(score / std::sqrt(static_cast<double>(size)) + added(i, j));
      }
      for (int64_t d = 0; d < v_size; ++d) {
        double value = 0;
        for (int64_t j = 0; j < keys; ++j) value += weights[static_cast<size_t>(j)] / sum * at(v, g, j, d);
        y.push_back(value);
      }
    }
  }
  return y;
}

constexpr double kHidden = -std::numeric_limits<double>::infinity();

const OpCall kTwoHeads = {{{"num_heads", int64_t{2}}}, 1};

}  // namespace

TEST_CASE("Attention shares key heads, adds masks and is causal") {
  const Tensor q = RandomTensor({1, 4, 70, 8}, 1), k = RandomTensor({1, 2, 90, 8}, 2),
               v = RandomTensor({1, 2, 90, 5}, 3);
  const Tensor mask = RandomTensor({70, 60}, 4);
  const auto masked = [&](int64_t i, int64_t j) {
    return j < 60 && j <= i ? mask.data<float>()[static_cast<size_t>(i * 60 + j)] : kHidden;
  };
  const Tensor y = RunOne(AttentionOp(), {q, k, v, mask}, {{{"is_causal", int64_t{1}}}, 24});
  REQUIRE(y.dims() == Dims{1, 4, 70, 5});
  RequireClose<float>(y, PlainAttention(q, k, v, masked), 2e-6);
  const auto lengths = [](int64_t, int64_t j) { return j < 33 ? 0 : kHidden; };
  RequireClose<float>(RunOne(AttentionOp(), {q, k, v, {}, {}, {}, Make<int64_t>({1}, {33})}, {{}, 24}),
                      PlainAttention(q, k, v, lengths), 2e-6);
  RequireThreadsAgree(AttentionOp(), {q, k, v, mask}, {{}, 24});
  const Tensor blind = RunOne(AttentionOp(), {q, k, v, Tensor::Of<bool>({1, 1}, std::array<bool, 1>{false})}, {{}, 24});
  RequireClose<float>(blind, std::vector<double>(4 * 70 * 5, 0.0), 0);
}

TEST_CASE("Attention puts past keys and values before the new ones") {
  const Tensor q = RandomTensor({1, 2, 3, 4}, 1), k = RandomTensor({1, 2, 3, 4}, 2), v = RandomTensor({1, 2, 3, 4}, 3);
  const Tensor past_k = RandomTensor({1, 2, 5, 4}, 4), past_v = RandomTensor({1, 2, 5, 4}, 5);
  const auto outputs = RunOp(AttentionOp(), {q, k, v, {}, past_k, past_v}, {{{"is_causal", int64_t{1}}}, 23, 3});
  REQUIRE(outputs.ok());
  const Tensor &y = (*outputs)[0], &key = (*outputs)[1], &value = (*outputs)[2];
  REQUIRE(key.dims() == Dims{1, 2, 8, 4});
  REQUIRE(key.data<float>()[0] == past_k.data<float>()[0]);
  REQUIRE(key.data<float>()[20] == k.data<float>()[0]);
  REQUIRE(key.data<float>()[32] == past_k.data<float>()[20]);
  const auto causal = [](int64_t i, int64_t j) { return j <= i + 5 ? 0 : kHidden; };
  RequireClose<float>(y, PlainAttention(q, key, value, causal), 2e-6);
}

TEST_CASE("Attention refuses what does not fit") {
  const Tensor q = RandomTensor({2, 4, 3, 8}, 1), k = RandomTensor({2, 2, 5, 8}, 2);
  const OpCall call = {{}, 24};
  RequireRefused(AttentionOp(), {q, k, RandomTensor({2, 2, 4, 8}, 3)}, call);
  RequireRefused(AttentionOp(), {q, RandomTensor({2, 3, 5, 8}, 2), RandomTensor({2, 3, 5, 8}, 2)}, call);
  RequireRefused(AttentionOp(), {q, RandomTensor({2, 0, 5, 8}, 2), RandomTensor({2, 0, 5, 8}, 2)}, call);
  RequireRefused(AttentionOp(), {q, k, RandomTensor({2, 5, 16}, 3)}, call);
  RequireRefused(AttentionOp(), {RandomTensor({2, 3, 8}, 1), RandomTensor({2, 5, 8}, 1), RandomTensor({2, 5, 8}, 1)},
                 call);
  RequireRefused(AttentionOp(), {q, k, k, RandomTensor({3, 6}, 3)}, call);
  RequireRefused(AttentionOp(), {q, k, k, RandomTensor({2, 5}, 3)}, call);
  RequireRefused(AttentionOp(), {q, k, k, RandomTensor({}, 3)}, call);
  RequireRefused(AttentionOp(), {q, k, k, {}, k}, call);
  RequireRefused(AttentionOp(), {q, k, k, {}, k, RandomTensor({2, 2, 4, 8}, 3)}, call);
  RequireRefused(AttentionOp(), {q, k, k, {}, {}, {}, Make<int64_t>({2}, {6, 1})}, call);
  RequireRefused(AttentionOp(), {q, k, k, {}, {}, {}, Make<int64_t>({1}, {1})}, call);
  RequireRefused(AttentionOp(), {q, k, k}, {{{"qk_matmul_output_mode", int64_t{4}}}, 24});
  const Tensor none = RandomTensor({2, 2, 0, 8}, 2);
  RequireClose<float>(RunOne(AttentionOp(), {q, none, none}, call), std::vector<double>(2 * 4 * 3 * 8, 0.0), 0);
}

TEST_CASE("com.microsoft Attention is its product and then attention") {
  // Unit weights hand the input on as queries, keys and values.
  const Tensor x = RandomTensor({1, 5, 4}, 1);
  Tensor weights = Make<float>({4, 12}, std::vector<float>(48, 0));
  for (size_t i = 0; i < 4; ++i) {
    for (size_t part : {0, 4, 8}) weights.mutable_data<float>()[i * 12 + part + i] = 1;
  }
  Tensor heads = RandomTensor({1, 2, 5, 2}, 1);
  for (size_t i = 0; i < 20; ++i) {
    heads.mutable_data<float>()[i / 2 % 2 * 10 + i / 4 * 2 + i % 2] = x.data<float>()[i];
  }
  const std::vector<double> by_heads = PlainAttention(heads, heads, heads, [](int64_t i, int64_t j) {
    return j > i ? kHidden : j == 1 ? -10000 : 0;
  });
  std::vector<double> want(20);
  for (size_t i = 0; i < 20; ++i) want[i] = by_heads[i / 2 % 2 * 10 + i / 4 * 2 + i % 2];
  const Tensor mask = Make<int32_t>({1, 5}, {1, 0, 1, 1, 1});
  const OpCall call = {{{"num_heads", int64_t{2}}, {"unidirectional", int64_t{1}}}, 1};
  RequireClose<float>(RunOne(MicrosoftAttentionOp(), {x, weights, {}, mask}, call), want, 2e-6);
  std::vector<int32_t> square(64, 1);
  for (size_t i = 0; i < 8; ++i) square[i * 8 + 1] = 0;
  RequireClose<float>(RunOne(MicrosoftAttentionOp(), {x, weights, {}, Make<int32_t>({1, 1, 8, 8}, square)}, call), want,
                      2e-6);
}

TEST_CASE("com.microsoft attention refuses what does not fit") {
  const Tensor x = RandomTensor({2, 3, 8}, 1), weights = RandomTensor({8, 24}, 2);
  const OpDef& op = MicrosoftAttentionOp();
  RunOne(op, {x, weights}, kTwoHeads);
  RequireRefused(op, {x, weights}, {{{"num_heads", int64_t{0}}}, 1});
  RequireRefused(op, {x, weights}, {{{"num_heads", int64_t{3}}}, 1});
  RequireRefused(op, {x, weights}, {{{"num_heads", int64_t{2}}, {"qkv_hidden_sizes", Ints{8, 8, 9}}}, 1});
  RequireRefused(op, {x, weights},
                 {{{"num_heads", int64_t{2}}, {"qkv_hidden_sizes", Ints{1LL << 62, 1LL << 62, 24}}}, 1});
  RequireRefused(op, {x, RandomTensor({7, 24}, 2)}, kTwoHeads);
  RequireRefused(op, {x, weights, RandomTensor({23}, 2)}, kTwoHeads);
  for (const Dims& dims : {Dims{3}, Dims{2, 4}, Dims{2, 3, 4}, Dims{2, 1, 2, 2}, Dims{1}}) {
    RequireRefused(op, {x, weights, {}, RandomBytes(DType::kInt32, dims, 3)}, kTwoHeads);
  }
  RequireRefused(op, {x, weights, {}, {}, RandomTensor({2, 2, 2, 1, 5}, 3)}, kTwoHeads);
  RequireRefused(op, {x, weights, {}, {}, {}, RandomTensor({2, 2, 3, 4}, 3)}, kTwoHeads);
  const OpDef& many = MultiHeadAttentionOp();
  RunOne(many, {x, x, x}, kTwoHeads);
  RequireRefused(many, {x}, kTwoHeads);
  RequireRefused(many, {x, x}, kTwoHeads);
  RequireRefused(many, {x, x, RandomTensor({2, 4, 8}, 1)}, kTwoHeads);
  RequireRefused(many, {x, RandomTensor({}, 1), x}, kTwoHeads);
  RequireRefused(many, {x, x, x, RandomTensor({23}, 1)}, kTwoHeads);
  RequireRefused(many, {x, x, x}, {{{"num_heads", int64_t{3}}}, 1});
}

TEST_CASE("MultiHeadAttention reads packed queries, keys and values") {
  const Tensor all = RandomTensor({2, 5, 2, 3, 4}, 1), bias = RandomTensor({24}, 2);
  Tensor parts[3], packed_kv = RandomTensor({2, 5, 2, 2, 4}, 1);
  for (size_t p = 0; p < 3; ++p) {
    parts[p] = RandomTensor({2, 5, 8}, 1);
    for (size_t i = 0; i < 80; ++i) parts[p].mutable_data<float>()[i] = all.data<float>()[(i / 4 * 3 + p) * 4 + i % 4];
  }
  for (size_t i = 0; i < 160; ++i) packed_kv.mutable_data<float>()[i] = all.data<float>()[i / 8 * 12 + 4 + i % 8];
  for (const Tensor& b : {Tensor(), bias}) {
    const Tensor apart = RunOne(MultiHeadAttentionOp(), {parts[0], parts[1], parts[2], b}, kTwoHeads);
    const std::vector<double> want(apart.data<float>().begin(), apart.data<float>().end());
    RequireClose<float>(RunOne(MultiHeadAttentionOp(), {all, {}, {}, b}, kTwoHeads), want, 0);
    RequireClose<float>(RunOne(MultiHeadAttentionOp(), {parts[0], packed_kv, {}, b}, kTwoHeads), want, 0);
  }
}

TEST_CASE("RotaryEmbedding turns pairs and leaves the rest") {
  const Tensor x = Make<float>({1, 1, 1, 5}, {1, 2, 3, 4, 5});
  const Tensor cos = Make<float>({2, 2}, {9, 9, 0, 1}), sin = Make<float>({2, 2}, {9, 9, 1, 0});
  const Tensor one = Make<int64_t>({1, 1}, {1});
  const AttributeList part = {{"rotary_embedding_dim", int64_t{4}}};
  RequireClose<float>(RunOne(RotaryEmbeddingOp(), {x, cos, sin, one}, {part, 23}), {-3, 2, 1, 4, 5}, 0);
  RequireClose<float>(RunOne(MicrosoftRotaryEmbeddingOp(), {x, one, cos, sin}, {part, 1}), {-3, 2, 1, 4, 5}, 0);
  AttributeList interleaved = part;
  interleaved.emplace_back("interleaved", int64_t{1});
  RequireClose<float>(RunOne(RotaryEmbeddingOp(), {x, cos, sin, one}, {interleaved, 23}), {-2, 1, 3, 4, 5}, 0);
  RequireRefused(RotaryEmbeddingOp(), {x, cos, sin, Make<int64_t>({1, 1}, {2})}, {part, 23});
  RequireRefused(RotaryEmbeddingOp(), {x, cos, sin, Make<int64_t>({1, 1}, {-1})}, {part, 23});
  RequireRefused(RotaryEmbeddingOp(), {x, cos, sin, one}, {{}, 23});
  RequireRefused(RotaryEmbeddingOp(), {x, cos, sin}, {part, 23});
  RequireRefused(RotaryEmbeddingOp(), {x, cos, sin, one}, {{{"rotary_embedding_dim", int64_t{6}}}, 23});
  RequireRefused(MicrosoftRotaryEmbeddingOp(), {x, Make<int64_t>({1}, {INT64_MAX}), cos, sin}, {part, 1});
}

TEST_CASE("TensorScatter writes over a cache, around its end when circular") {
  const Tensor cache = Make<int32_t>({2, 3, 1}, {1, 2, 3, 4, 5, 6}),
               update = Make<int32_t>({2, 2, 1}, {10, 20, 30, 40});
  const auto values = [](const Tensor& t) {
    return std::vector<int32_t>(t.data<int32_t>().begin(), t.data<int32_t>().end());
  };
  REQUIRE(values(RunOne(TensorScatterOp(), {cache, update})) == std::vector<int32_t>{10, 20, 3, 30, 40, 6});
  const Tensor starts = Make<int64_t>({2}, {1, 5});
  RequireRefused(TensorScatterOp(), {cache, update, starts});
  REQUIRE(values(RunOne(TensorScatterOp(), {cache, update, starts}, {{{"mode", std::string("circular")}}, 24})) ==
          std::vector<int32_t>{1, 10, 20, 40, 5, 30});
  RequireRefused(TensorScatterOp(), {cache, update, Make<int64_t>({2}, {-1, 0})});
  RequireRefused(TensorScatterOp(), {cache, update, Make<int64_t>({1}, {0})});
  RequireRefused(TensorScatterOp(), {cache, update}, {{{"axis", int64_t{0}}}, 24});
  RequireRefused(TensorScatterOp(), {update, cache});
}

}  // namespace quant
