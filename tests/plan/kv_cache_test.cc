#include "libquant/plan/kv_cache.h"

#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "tests/catch.h"

namespace quant {
namespace {

Model Parse(const std::string& graph, int opset = 24) {
  auto model =
      ParseModelText(fmt::format("<ir_version: 10, opset_import: [\"\": {}, \"com.microsoft\": 1]>\n{}", opset, graph));
  INFO(graph);
  INFO(Message(model.status()));
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  return *std::move(model);
}

int64_t BytesOf(const Model& model, const CacheOptions& options) {
  const auto size = MeasureCaches(FindCaches(model.graph), options);
  REQUIRE(size.ok());
  return size->bytes;
}

// Two layers of a decoder whose cache grows by Concat.
const char* const kConcat =
    R"(agraph (int64[batch, seq] ids, float[batch, 4, seq, 8] k, float[batch, 4, past, 8] past_k,
    float[batch, 4, seq, 8] v, float[batch, 4, past, 8] past_v)
    => (float[batch, 4, total, 8] new_k, float[batch, 4, total, 8] new_v) {
  new_k = Concat<axis = 2>(past_k, k)
  new_v = Concat<axis = -2>(past_v, v)
})";

TEST_CASE("past and present joined by Concat") {
  const Model m = Parse(kConcat);
  const auto caches = FindCaches(m.graph);
  REQUIRE(caches.size() == 2);
  CHECK(caches[0].length_axis == 2);
  CHECK(caches[0].grows);
  // 2 x batch 1 x 4 heads x 100 x 8 x 4 bytes.
  CHECK(BytesOf(m, {.length = 100}) == 2 * 4 * 100 * 8 * 4);
  CHECK(BytesOf(m, {.length = 100, .bits = 8}) == 2 * 4 * 100 * 8);
  CHECK(BytesOf(m, {.length = 100, .half = true}) == 2 * 4 * 100 * 8 * 2);
  const auto open = MeasureCaches(caches, {});
  REQUIRE(open.ok());
  CHECK(open->opened == std::vector<std::string>{"batch", "total"});
  CHECK(open->bytes == open->bytes_per_token);
}

TEST_CASE("a join between values that are no input, or no output, is no cache") {
  CHECK(FindCaches(Parse(R"(agraph (float[1, 4, seq, 8] k, float[1, 4, old, 8] before) => (float[1, 4, n, 8] y) {
    joined = Concat<axis = 2>(before, k)
    y = Relu(joined)
  })")
                       .graph)
            .empty());
  CHECK(FindCaches(Parse(R"(agraph (float[1, 4, seq, 8] k, float[1, 4, old, 8] before) => (float[1, 4, n, 8] y) {
    made = Relu(before)
    y = Concat<axis = 2>(made, k)
  })")
                       .graph)
            .empty());
}

TEST_CASE("the merged cache of com.microsoft Attention") {
  const Model m = Parse(R"(agraph (float[b, s, 16] x, float[2, b, 4, past, 4] past_0, float[16, 48] w, float[48] bias)
      => (float[b, s, 16] y, float[2, b, 4, total, 4] present_0) {
    y, present_0 = com.microsoft.Attention<num_heads = 4, unidirectional = 1>(x, w, bias, , past_0)
  })",
                        21);
  const auto caches = FindCaches(m.graph);
  REQUIRE(caches.size() == 1);
  CHECK(caches[0].length_axis == 3);
  CHECK(BytesOf(m, {.length = 10}) == 2 * 4 * 10 * 4 * 4);
}

TEST_CASE("ONNX's Attention, seen through Cast and Identity") {
  const Model m = Parse(R"(agraph (float[b, s, 8] q, float[b, s, 4] k, float[b, s, 4] v, float16[b, 1, past, 4] pk,
      float16[b, 1, past, 4] pv) => (float[b, s, 8] y, float16[b, 1, total, 4] nk, float16[b, 1, total, 4] nv) {
    pk32 = Cast<to = 1>(pk)
    pv32 = Cast<to = 1>(pv)
    y, nk32, nv32 = Attention<q_num_heads = 2, kv_num_heads = 1>(q, k, v, , pk32, pv32)
    nk16 = Cast<to = 10>(nk32)
    nk = Identity(nk16)
    nv = Cast<to = 10>(nv32)
  })");
  CHECK(FindCaches(m.graph).size() == 2);
  // Stored as float16: 2 bytes each.
  CHECK(BytesOf(m, {.length = 50}) == 2 * 50 * 4 * 2);
}

TEST_CASE("a cache of fixed length that TensorScatter writes over") {
  const Model m = Parse(R"(agraph (float[1, 2, 64, 8] cache, float[1, 2, seq, 8] new, int64[1] at)
      => (float[1, 2, 64, 8] updated) { updated = TensorScatter(cache, new, at) })");
  const auto caches = FindCaches(m.graph);
  REQUIRE(caches.size() == 1);
  CHECK_FALSE(caches[0].grows);
  CHECK(BytesOf(m, {}) == 2 * 64 * 8 * 4);
  const auto dims = BindSequence(m.graph, caches, {.sequence = 100});
  CHECK(ExitCode(dims.status()) == 2);
  CHECK(Message(dims.status()).find("fixed length of 64") != std::string::npos);
}

TEST_CASE("by names alone, where keys lie with the length first") {
  const Model m =
      Parse(R"(agraph (float[b, past, 2, 8] past_key_values_0_key, float[b, new, 2, 8] k, float[b, n] past_x)
      => (float[b, total, 2, 8] present_0_key, float[b, n] other) {
    t = Transpose<perm = [0, 2, 1, 3]>(past_key_values_0_key)
    u = Transpose<perm = [0, 2, 1, 3]>(k)
    j = Concat<axis = 2>(t, u)
    present_0_key = Transpose<perm = [0, 2, 1, 3]>(j)
    other = Relu(past_x)
  })");
  const auto caches = FindCaches(m.graph);
  REQUIRE(caches.size() == 1);
  CHECK(caches[0].length_axis == 1);
  CHECK(BytesOf(m, {.length = 7}) == 7 * 2 * 8 * 4);
}

TEST_CASE("a sequence length gives names their numbers") {
  const Model m = Parse(kConcat);
  const auto caches = FindCaches(m.graph);
  using Numbers = std::map<std::string, int64_t>;
  const auto bind = [&](const SequenceDims& dims) {
    const auto out = BindSequence(m.graph, caches, dims);
    REQUIRE(out.ok());
    return *out;
  };
  CHECK(bind({.sequence = 100, .batch = 2}) == Numbers{{"batch", 2}, {"past", 99}, {"seq", 1}, {"total", 100}});
  CHECK(bind({.sequence = 100, .given = {{"seq", 40}}}) == Numbers{{"past", 60}, {"total", 100}});
  CHECK(bind({.sequence = 100, .given = {{"seq", 100}}}) == Numbers{{"past", 1}, {"total", 100}});
  CHECK(ExitCode(BindSequence(m.graph, caches, {.sequence = 10, .given = {{"seq", 11}}}).status()) == 2);
}

TEST_CASE("without a cache the inputs of token ids get the sequence") {
  const Model m = Parse(R"(agraph (int64[batch, tokens] ids, int64[batch, tokens] mask) => (int64[batch, tokens] y) {
    y = Mul(ids, mask)
  })");
  const auto out = BindSequence(m.graph, {}, {.sequence = 16});
  REQUIRE(out.ok());
  CHECK(*out == std::map<std::string, int64_t>{{"tokens", 16}});
  const Model image = Parse("agraph (float[n, 3, h, w] x) => (float[n, 3, h, w] y) { y = Relu(x) }");
  CHECK(ExitCode(BindSequence(image.graph, {}, {.sequence = 16}).status()) == 2);
  const auto batch = BindSequence(image.graph, {}, {.batch = 4});
  REQUIRE(batch.ok());
  CHECK(*batch == std::map<std::string, int64_t>{{"n", 4}});
}

}  // namespace
}  // namespace quant
