#include "libquant/exec/activation_memory.h"

#include <limits>

#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "tests/catch.h"

namespace quant {
namespace {

Model Parse(const std::string& graph) {
  auto model = ParseModelText("<ir_version: 10, opset_import: [\"\": 21]>\n" + graph);
  INFO(graph);
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  return *std::move(model);
}

ValueId Named(const Graph& graph, const std::string& name) {
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    if (graph.value(v).name == name) return v;
  }
  return kNoValue;
}

TEST_CASE("a tensor lives from the node that makes it to its last reader") {
  // x 400, a 400, b 400, c 800 bytes: at Concat a, b and c are alive; x is not any more.
  const Model m = Parse(R"(agraph (float[100] x) => (float[200] c) {
    a = Softmax(x)
    b = Softmax(a)
    c = Concat<axis = 0>(a, b)
  })");
  const ActivationMemory peak = PeakActivations(m);
  CHECK(peak.peak_bytes == 1600);
  CHECK(m.graph.node(peak.at).op_type == "Concat");
  CHECK(peak.open_dims.empty());
  CHECK(peak.unknown_values == 0);
  CHECK(PeakActivations(m, {.half = true}).peak_bytes == 800);
  CHECK(PeakActivations(m, {.elsewhere = {Named(m.graph, "c")}}).peak_bytes == 800);
}

TEST_CASE("element by element is written over what nobody needs any more, never over an input") {
  CHECK(PeakActivations(Parse("agraph (float[100] x) => (float[100] y) { a = Softmax(x) y = Relu(a) }")).peak_bytes ==
        800);
  CHECK(PeakActivations(Parse("agraph (float[100] x) => (float[100] y) { a = Neg(x) y = Softmax(a) }")).peak_bytes ==
        800);
  // The neighbour: a has a second reader later on.
  CHECK(PeakActivations(Parse(R"(agraph (float[100] x) => (float[200] y) {
    a = Softmax(x)
    b = Relu(a)
    c = Softmax(b)
    y = Concat<axis = 0>(a, c)
  })"))
            .peak_bytes == 1600);
}

TEST_CASE("what is made of constants alone is folded; open dimensions count as 1 and are named") {
  const Model m = Parse(R"(agraph (float[batch, 10] x, float[n] unused) => (float[batch, 10] y)
    <float[10] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> {
    v = Softmax(w)
    y = Sub(x, v)
  })");
  const ActivationMemory peak = PeakActivations(m);
  CHECK(peak.peak_bytes == 80);
  CHECK(peak.open_dims == std::vector<std::string>{"batch"});
}

TEST_CASE("sizes that no number holds stop at the largest") {
  const Model m = Parse("agraph (float[2147483647, 2147483647, 2147483647] x) => (y) { y = Softmax(x) }");
  CHECK(PeakActivations(m).peak_bytes == std::numeric_limits<int64_t>::max());
}

TEST_CASE("a node with bodies takes the peak of the larger one besides") {
  const Model m = Parse(R"(agraph (bool b, float[100] x) => (float[100] y) {
    y = If (b) <
      then_branch = t () => (float[100] p) { u = Softmax(x) p = Softmax(u) },
      else_branch = e () => (float[100] q) { q = Softmax(x) }
    >
  })");
  // b 1, x 400, y 400, in the larger body 800.
  CHECK(PeakActivations(m).peak_bytes == 1601);
}

}  // namespace
}  // namespace quant
