#include "libquant/ir/graph.h"

#include "libquant/ir/edit.h"
#include "tests/catch.h"

namespace quant {
namespace {

ValueId Input(Graph& g, const std::string& name, RegionId region = kMainRegion) {
  Value v;
  v.name = name;
  v.dtype = DType::kFloat;
  v.region = region;
  v.is_input = true;
  const ValueId id = g.AddValue(v);
  g.region(region).inputs.push_back(id);
  return id;
}

ValueId Initializer(Graph& g, const std::string& name) {
  Value v;
  v.name = name;
  v.dtype = DType::kFloat;
  v.is_initializer = true;
  v.constant = Tensor::Scalar(1.0f);
  const ValueId id = g.AddValue(v);
  g.main().initializers.push_back(id);
  return id;
}

std::pair<NodeId, ValueId> Op(Graph& g, const std::string& type, std::vector<ValueId> inputs, const std::string& out,
                              RegionId region = kMainRegion) {
  Value v;
  v.name = out;
  v.dtype = DType::kFloat;
  v.region = region;
  const ValueId y = g.AddValue(v);
  Node n;
  n.name = type + "_" + out;
  n.op_type = type;
  n.inputs = std::move(inputs);
  n.outputs = {y};
  n.region = region;
  return {g.AddNode(n), y};
}

// y = If(c) { then: a + w }, with w captured from outside.
struct WithBody {
  Graph g;
  ValueId c, w, a, y;
  NodeId branch, inner;
  WithBody() {
    c = Input(g, "c");
    w = Initializer(g, "w");
    a = Op(g, "Relu", {c}, "a").second;
    std::tie(branch, y) = Op(g, "If", {c}, "y");
    const RegionId body = g.AddRegion(kMainRegion, branch);
    g.node(branch).attributes.Set("then_branch", BodyRef{body});
    ValueId sum;
    std::tie(inner, sum) = Op(g, "Add", {a, w}, "sum", body);
    g.AddOutput(body, sum);
    g.AddOutput(kMainRegion, y);
  }
};

TEST_CASE("uses include those of bodies that capture") {
  WithBody m;
  REQUIRE(Verify(m.g).ok());
  REQUIRE(m.g.value(m.w).uses.size() == 1);
  CHECK(m.g.value(m.w).uses[0].node == m.inner);
  CHECK(m.g.AllNodes().size() == 3);
}

TEST_CASE("removing a node frees what its bodies captured") {
  WithBody m;
  m.g.ReplaceUses(m.y, m.c);
  CHECK(m.g.RemoveUnused() > 0);
  CHECK(Verify(m.g).ok());
  CHECK(m.g.main().nodes.empty());
  CHECK(m.g.main().initializers.empty());
}

TEST_CASE("what lost its last reader goes, and only that") {
  Graph g;
  const auto make = [&](const char* name, ValueId x) {
    Value value;
    value.name = name;
    const ValueId out = g.AddValue(std::move(value));
    Node node;
    node.name = name;
    node.op_type = "Neg";
    node.inputs = {x};
    node.outputs = {out};
    g.AddNode(std::move(node));
    return out;
  };
  Value input;
  input.name = "x";
  input.is_input = true;
  const ValueId x = g.AddValue(std::move(input));
  g.main().inputs.push_back(x);
  std::vector<ValueId> chain = {x};
  for (const char* name : {"a", "b", "c", "d", "e"}) chain.push_back(make(name, chain.back()));
  g.AddOutput(kMainRegion, chain.back());
  CHECK(g.RemoveOrphans() == 0);
  g.SetInput(g.value(chain[4]).producer, 0, x);  // d reads x: a, b, c have no reader any more
  CHECK(g.RemoveOrphans() == 3);
  CHECK(Verify(g).ok());
  CHECK(g.main().nodes == std::vector<NodeId>{g.value(chain[4]).producer, g.value(chain[5]).producer});
  CHECK(g.RemoveUnused() == 0);
}

TEST_CASE("nodes are found in an order that has changed since it was noted") {
  Graph g;
  const auto node = [&] {
    Node n;
    n.op_type = "Nothing";
    return g.AddNode(std::move(n));
  };
  std::vector<NodeId> order;
  for (int i = 0; i < 50; ++i) order.push_back(node());
  uint32_t random = 7;
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525 + 1013904223;
    const size_t from = (random >> 8) % order.size();
    const size_t to = (random >> 20) % order.size();
    if (from == to) continue;
    const NodeId moved = order[from];
    const NodeId before = order[to];
    g.MoveBefore(moved, before);
    order.erase(order.begin() + static_cast<ptrdiff_t>(from));
    order.insert(std::find(order.begin(), order.end(), before), moved);
    REQUIRE(g.main().nodes == order);
  }
  while (order.size() > 1) {
    random = random * 1664525 + 1013904223;
    const size_t at = (random >> 8) % order.size();
    g.RemoveNode(order[at]);
    order.erase(order.begin() + static_cast<ptrdiff_t>(at));
    REQUIRE(g.main().nodes == order);
  }
}

TEST_CASE("sorting keeps a sorted order and mends another") {
  WithBody m;
  const auto before = m.g.main().nodes;
  REQUIRE(m.g.SortTopologically().ok());
  CHECK(m.g.main().nodes == before);
  // The If needs `a` only through its body.
  std::swap(m.g.main().nodes[0], m.g.main().nodes[1]);
  CHECK_FALSE(Verify(m.g).ok());
  REQUIRE(m.g.SortTopologically().ok());
  CHECK(m.g.main().nodes == before);
  CHECK(Verify(m.g).ok());
}

TEST_CASE("a cycle is an error that names a node") {
  Graph g;
  const ValueId x = Input(g, "x");
  auto [first, a] = Op(g, "Add", {x, x}, "a");
  auto [second, b] = Op(g, "Relu", {a}, "b");
  g.SetInput(first, 1, b);
  const Status status = g.SortTopologically();
  CHECK(ExitCode(status) == 3);
  CHECK(Message(status).find("cycle") != std::string::npos);
}

TEST_CASE("an edit is applied whole or not at all") {
  WithBody m;
  GraphEdit bad(m.branch);
  bad.AddConstant("k", Tensor::Scalar(2.0f));
  bad.Remove(m.branch);  // y is still read
  const int32_t values = m.g.value_count();
  CHECK_FALSE(bad.ApplyTo(m.g).ok());
  CHECK(m.g.value_count() == values);
  CHECK(Verify(m.g).ok());
}

TEST_CASE("a replaced graph output keeps its name") {
  WithBody m;
  GraphEdit edit(m.branch);
  const ValueRef z = edit.AddNode({"z", "Neg", "", {ValueRef::Of(m.a)}, {}, {}}, DType::kFloat, std::nullopt);
  edit.Replace(m.y, z);
  REQUIRE(edit.ApplyTo(m.g).ok());
  CHECK(m.g.value(m.g.main().outputs[0]).name == "y");
  m.g.RemoveUnused();
  CHECK(Verify(m.g).ok());
  CHECK(m.g.main().nodes.size() == 2);
}

TEST_CASE("a successor takes over name, outputs and place") {
  WithBody m;
  const std::string name = m.g.node(m.branch).name;
  GraphEdit edit(m.branch);
  edit.ReplaceNode(m.branch, {"ignored", "Identity", "", {ValueRef::Of(m.a)}, {}, {}});
  REQUIRE(edit.ApplyTo(m.g).ok());
  const Node& successor = m.g.node(m.g.value(m.y).producer);
  CHECK(successor.op_type == "Identity");
  CHECK(successor.name == name);
  m.g.RemoveUnused();
  CHECK(Verify(m.g).ok());
}

TEST_CASE("a successor may take over the name of a node that goes") {
  WithBody m;
  const NodeId first = m.g.value(m.a).producer;
  const std::string name = m.g.node(first).name;
  REQUIRE_FALSE(name.empty());
  GraphEdit edit(m.branch);
  edit.ReplaceNode(m.branch, {"ignored", "Identity", "", {ValueRef::Of(m.a)}, {}, {}, first});
  REQUIRE(edit.ApplyTo(m.g).ok());
  CHECK(m.g.node(m.g.value(m.y).producer).name == name);
  GraphEdit wrong(first);
  wrong.ReplaceNode(first, {"ignored", "Identity", "", {ValueRef::Of(m.a)}, {}, {}, 999});
  CHECK_FALSE(wrong.ApplyTo(m.g).ok());
}

TEST_CASE("an edit that changes a value's type is refused") {
  WithBody m;
  GraphEdit edit(m.branch);
  edit.Replace(m.y, edit.AddNode({"z", "Cast", "", {ValueRef::Of(m.a)}, {}, {}}, DType::kFloat16, std::nullopt));
  CHECK_FALSE(edit.ApplyTo(m.g).ok());
}

TEST_CASE("new names never collide with values or nodes") {
  WithBody m;
  CHECK(m.g.FreshName("w") == "w_1");
  CHECK(m.g.FreshName("w") == "w_2");
  CHECK(m.g.FreshName("Add_sum") == "Add_sum_1");
  CHECK(m.g.FreshName("") == "value");
}

TEST_CASE("the verifier sees a use that is not listed") {
  WithBody m;
  m.g.value(m.w).uses.clear();
  CHECK_FALSE(Verify(m.g).ok());
}

}  // namespace
}  // namespace quant
