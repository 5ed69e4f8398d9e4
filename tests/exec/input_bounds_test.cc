#include "libquant/exec/session.h"
#include "tests/catch.h"
#include "tests/exec/small_model.h"

namespace quant {
namespace {

Tensor Table(int64_t rows, int64_t columns) {
  return Floats({rows, columns}, std::vector<float>(static_cast<size_t>(rows * columns), 1.0f));
}

TEST_CASE("ids are bounded by the smallest table they reach") {
  SmallModel m;
  const ValueId ids = m.Input("ids", {{-1, "n"}}, DType::kInt64);
  const ValueId mask = m.Input("mask", {{-1, "n"}}, DType::kInt64);
  m.Constant("fixed", Ints({1}, {0}), /*also_input=*/true);
  Attributes to;
  to.Set("to", int64_t{6});
  const ValueId cast = m.Op("Cast", {ids}, "cast", to);
  const ValueId wide = m.Op("Unsqueeze", {cast, m.Constant("axes", Ints({1}, {0}))}, "wide");
  m.Output(m.Op("Gather", {m.Constant("words", Table(100, 2)), wide}, "a"));
  m.Output(m.Op("Gather", {m.Constant("kinds", Table(7, 3)), ids}, "b"));
  m.Output(m.Op("Neg", {mask}, "c"));
  const auto inputs = RequiredInputs(m.model);
  REQUIRE(inputs.size() == 2);
  CHECK(inputs[0].name == "ids");
  CHECK(inputs[0].index_bound == 7);
  CHECK(inputs[0].dtype == DType::kInt64);
  CHECK(inputs[1].name == "mask");
  CHECK(inputs[1].index_bound == 0);
}

TEST_CASE("the axis of the lookup counts, and tables known only by shape do too") {
  SmallModel m;
  const ValueId ids = m.Input("ids", {{1, {}}}, DType::kInt64);
  const ValueId table = m.Op("Relu", {m.Constant("t", Table(4, 9))}, "computed");
  m.graph().value(table).shape = Shape{{4, {}}, {9, {}}};
  Attributes axis;
  axis.Set("axis", int64_t{-1});
  m.Output(m.Op("Gather", {table, ids}, "y", axis));
  CHECK(RequiredInputs(m.model)[0].index_bound == 9);
}

TEST_CASE("ids are followed through arithmetic with masks and small constants") {
  SmallModel m;
  const ValueId ids = m.Input("ids", {{-1, "n"}}, DType::kInt64);
  const ValueId mask = m.Input("mask", {{-1, "n"}}, DType::kInt64);
  const ValueId positions = m.Input("positions", {{-1, "n"}}, DType::kInt64);
  const ValueId doubled = m.Input("doubled", {{-1, "n"}}, DType::kInt64);
  const ValueId words = m.Constant("words", Table(100, 1));
  const ValueId masked = m.Op("Add", {m.Op("Mul", {ids, mask}, "masked"), mask}, "shifted");
  m.Output(m.Op("Gather", {words, masked}, "a"));
  const ValueId two = m.Constant("two", Ints({}, {2}));
  m.Output(m.Op("Gather", {words, m.Op("Add", {positions, two}, "offset")}, "b"));
  m.Output(m.Op("Gather", {words, m.Op("Mul", {doubled, doubled}, "square")}, "c"));
  const auto inputs = RequiredInputs(m.model);
  REQUIRE(inputs.size() == 4);
  CHECK(inputs[0].index_bound == 98);  // 97 * 1 + 1 < 100, with one to spare for the product
  CHECK(inputs[1].index_bound == 0);
  CHECK(inputs[2].index_bound == 50);  // right for 2 * x as well as for x + 2
  CHECK(inputs[3].index_bound == 0);
}

TEST_CASE("a lookup into a table of unknown length bounds nothing, nor does an axis outside") {
  SmallModel m;
  const ValueId ids = m.Input("ids", {{1, {}}}, DType::kInt64);
  const ValueId x = m.Input("x", {{-1, "rows"}, {2, {}}});
  m.Output(m.Op("Gather", {x, ids}, "y"));
  Attributes axis;
  axis.Set("axis", int64_t{5});
  m.Output(m.Op("Gather", {m.Constant("t", Table(2, 2)), ids}, "z", axis));
  CHECK(RequiredInputs(m.model)[0].index_bound == 0);
}

}  // namespace
}  // namespace quant
