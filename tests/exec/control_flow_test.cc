#include "libquant/exec/control_flow.h"

#include <chrono>
#include <map>
#include <thread>

#include "libquant/exec/session.h"
#include "libquant/model/text.h"
#include "tests/catch.h"
#include "tests/exec/small_model.h"

namespace quant {
namespace {

Model Parse(const std::string& graph) {
  auto model = ParseModelText("<ir_version: 10, opset_import: [\"\": 21]>\n" + graph);
  INFO(Message(model.status()));
  REQUIRE(model.ok());
  return std::move(*model);
}

// A model with its session, which points into it.
struct Runner {
  Model model;
  std::unique_ptr<Session> session;

  explicit Runner(const std::string& graph, SessionOptions options = {}) : model(Parse(graph)) {
    auto made = Session::Create(model, options);
    INFO(Message(made.status()));
    REQUIRE(made.ok());
    session = std::move(*made);
  }
  NamedTensors operator()(const NamedTensors& feeds, const RunHooks::Probe& probe = nullptr) {
    auto out = session->Run(feeds, {.probe = probe});
    INFO(Message(out.status()));
    REQUIRE(out.ok());
    return std::move(*out);
  }
  std::string Error(const NamedTensors& feeds) {
    const auto out = session->Run(feeds);
    REQUIRE(!out.ok());
    INFO(Message(out.status()));
    CHECK(ExitCode(out.status()) == 3);
    return Message(out.status());
  }
};

Tensor Bool(bool value) { return Tensor::Scalar(value); }
Tensor Trips(int64_t n) { return Tensor::Scalar(n); }
bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using Numbers = std::vector<float>;
using Names = std::vector<std::string>;

const char* const kIf = R"(g (bool c, float[2] x) => (float[2] y) <float[2] w = {10, 20}> {
  y = If(c) <
    then_branch = a () => (float[2] p) { p = Add(x, w) },
    else_branch = b () => (float[2] q) { k = Constant<value = float[2] {3, 4}>()  q = Mul(x, k) }>
})";

TEST_CASE("If runs the branch that its condition picks, with values and constants from around it") {
  Runner run(kIf);
  const Tensor x = Floats({2}, {1, 2});
  CHECK(FloatsOf(run({{"c", Bool(true)}, {"x", x}})[0].second) == Numbers{11, 22});
  CHECK(FloatsOf(run({{"c", Bool(false)}, {"x", x}})[0].second) == Numbers{3, 8});
  CHECK(FloatsOf(run({{"c", Bool(true)}, {"x", x}})[0].second) == Numbers{11, 22});
}

TEST_CASE("the probe sees what the taken branch makes, then the node's output") {
  Runner run(R"(g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <
      then_branch = a () => (float[2] p) { n = Neg(x)  p = Abs(n) },
      else_branch = b () => (float[2] q) { q = Relu(x) }>
  })");
  const auto seen = [&](bool condition) {
    Names names;
    run({{"c", Bool(condition)}, {"x", Floats({2}, {1, 2})}}, [&](const std::string& name, const Tensor&) {
      names.push_back(name);
      return OkStatus();
    });
    return names;
  };
  CHECK(seen(true) == Names{"n", "p", "y"});
  CHECK(seen(false) == Names{"q", "y"});
}

TEST_CASE("an error of the probe inside a body ends the run, and the next run is whole") {
  Runner run(kIf);
  const NamedTensors feeds = {{"c", Bool(true)}, {"x", Floats({2}, {1, 2})}};
  const auto stop_at_p = [](const std::string& name, const Tensor&) {
    return name == "p" ? DataError("enough") : OkStatus();
  };
  const auto out = run.session->Run(feeds, {.probe = stop_at_p});
  REQUIRE(!out.ok());
  CHECK(Has(Message(out.status()), "enough"));
  CHECK(FloatsOf(run(feeds)[0].second) == Numbers{11, 22});
}

TEST_CASE("a branch may give a captured value, a captured constant, or a constant of its own") {
  Runner run(R"(g (bool c, float[2] x) => (float[2] y, float[2] z, float[2] k, float[2] again) <float[2] w = {10, 20}> {
    n = Neg(x)
    y, z, k = If(c) <
      then_branch = a () => (float[2] n, float[2] w, float[2] own) <float[2] own = {5, 6}> { },
      else_branch = b () => (float[2] x, float[2] n, float[2] r) { r = Relu(n) }>
    again = Add(n, n)
  })");
  const Tensor x = Floats({2}, {-1, 2});
  auto out = run({{"c", Bool(true)}, {"x", x}});
  CHECK(FloatsOf(out[0].second) == Numbers{1, -2});
  CHECK(FloatsOf(out[1].second) == Numbers{10, 20});
  CHECK(FloatsOf(out[2].second) == Numbers{5, 6});
  CHECK(FloatsOf(out[3].second) == Numbers{2, -4});
  out = run({{"c", Bool(false)}, {"x", x}});
  CHECK(FloatsOf(out[0].second) == Numbers{-1, 2});
  CHECK(FloatsOf(out[1].second) == Numbers{1, -2});
  CHECK(FloatsOf(out[2].second) == Numbers{1, 0});
}

TEST_CASE("a condition that is known when the session is made still picks its branch") {
  for (const SessionOptions& options : {SessionOptions{}, SessionOptions{.max_folded_bytes = 0}}) {
    Runner run(R"(g (float[2] x) => (float[2] y) <int64[1] one = {1}, int64[1] two = {2}> {
      c = Less(one, two)
      y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) }, else_branch = b () => (float[2] q) { q = Abs(x) }>
    })",
               options);
    CHECK(FloatsOf(run({{"x", Floats({2}, {1, 2})}})[0].second) == Numbers{-1, -2});
  }
}

TEST_CASE("constants inside and around bodies are folded once and reach every reader") {
  for (const SessionOptions& options : {SessionOptions{}, SessionOptions{.max_folded_bytes = 0}}) {
    Runner run(R"(g (bool c, float[2] x) => (float[2] y, float[2] z) <float[2] w = {10, 20}> {
      v = Neg(w)
      y = If(c) <
        then_branch = a () => (float[2] p) { d = Add(v, v)  e = Abs(w)  de = Mul(d, e)  p = Add(x, de) },
        else_branch = b () => (float[2] q) { q = Add(v, w) }>
      z = Sub(x, v)
    })",
               options);
    for (int i = 0; i < 2; ++i) {
      auto out = run({{"c", Bool(true)}, {"x", Floats({2}, {1, 2})}});
      CHECK(FloatsOf(out[0].second) == Numbers{-199, -798});
      CHECK(FloatsOf(out[1].second) == Numbers{11, 22});
      out = run({{"c", Bool(false)}, {"x", Floats({2}, {1, 2})}});
      CHECK(FloatsOf(out[0].second) == Numbers{0, 0});
    }
  }
}

TEST_CASE("what a branch that is never taken gets wrong is no error; taken it is one") {
  Runner run(R"(g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[3] v = {1, 2, 3}> {
    y = If(c) <
      then_branch = a () => (float[2] p) { p = Neg(x) },
      else_branch = b () => (float[2] q) { bad = Add(w, v)  q = Add(bad, x) }>
  })");
  const Tensor x = Floats({2}, {1, 2});
  CHECK(FloatsOf(run({{"c", Bool(true)}, {"x", x}})[0].second) == Numbers{-1, -2});
  CHECK(Has(run.Error({{"c", Bool(false)}, {"x", x}}), "(Add; inputs float32[2], float32[3])"));
  CHECK(FloatsOf(run({{"c", Bool(true)}, {"x", x}})[0].second) == Numbers{-1, -2});
}

TEST_CASE("an operator without a kernel inside a body is named") {
  const Model model = Parse(R"(g (bool c, float[2] x) => (float[2] y) {
    y = If(c) <then_branch = a () => (float[2] p) { p = Zork(x) }, else_branch = b () => (float[2] q) { q = Neg(x) }>
  })");
  const auto session = Session::Create(model);
  REQUIRE(!session.ok());
  CHECK(ExitCode(session.status()) == 4);
  CHECK(Has(Message(session.status()), "Zork (ai.onnx 21)"));
}

TEST_CASE("a condition that is not one bool is an error") {
  const auto text = [](const std::string& type) {
    return "g (" + type + R"( c, float[2] x) => (float[2] y) {
      y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) }, else_branch = b () => (float[2] q) { q = Abs(x) }>
    })";
  };
  const Tensor x = Floats({2}, {1, 2});
  CHECK(Has(Runner(text("float[1]")).Error({{"c", Floats({1}, {1})}, {"x", x}}), "float32[1], not one bool"));
  const bool many[] = {true, false};
  const Tensor two = Tensor::Of<bool>({2}, std::span<const bool>(many));
  CHECK(Has(Runner(text("bool[2]")).Error({{"c", two}, {"x", x}}), "bool[2], not one bool"));
  CHECK(Has(Runner(text("bool[N]")).Error({{"c", Tensor::Allocate(DType::kBool, {0})}, {"x", x}}), "not one bool"));
  Runner one(text("bool[1,1]"));
  CHECK(FloatsOf(one({{"c", Tensor::Of<bool>({1, 1}, std::span(many, 1))}, {"x", x}})[0].second) == Numbers{-1, -2});
}

TEST_CASE("a branch with too many or too few outputs or with an input is an error") {
  const auto error = [](const std::string& branch) {
    Runner run("g (bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = a " + branch +
               ", else_branch = b () => (float[2] q) { q = Neg(x) }> }");
    return run.Error({{"c", Bool(true)}, {"x", Floats({2}, {1, 2})}});
  };
  CHECK(Has(error("() => (float[2] p, float[2] r) { p = Neg(x)  r = Abs(x) }"), "2 outputs where 1 belong"));
  CHECK(Has(error("() => () { p = Neg(x) }"), "0 outputs where 1 belong"));
  CHECK(Has(error("(float[2] i) => (float[2] p) { p = Neg(i) }"), "1 inputs where 0 belong"));
}

TEST_CASE("a missing branch is an error once it would be taken") {
  Runner run(
      "g (bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) }> }");
  CHECK(FloatsOf(run({{"c", Bool(true)}, {"x", Floats({2}, {1, 2})}})[0].second) == Numbers{-1, -2});
  CHECK(Has(run.Error({{"c", Bool(false)}, {"x", Floats({2}, {1, 2})}}), "else_branch"));
}

// sum += x, and each sum is stacked; stops once the first element passes `limit`.
const char* const kLoop = R"(g (int64 trips, bool c, float[2] x, float limit) => (float[2] total, float[N,2] sums) {
  zero = Sub(x, x)
  total, sums = Loop(trips, c, zero) <body = b (int64 i, bool going, float[2] sum)
      => (bool go_on, float[2] next, float[2] seen) {
    next = Add(sum, x)
    seen = Identity(next)
    at = Constant<value = int64 {0}>()
    first = Gather(next, at)
    go_on = Less(first, limit)
  }>
})";

NamedTensors LoopFeeds(int64_t trips, bool condition, float limit) {
  return {
      {"trips", Trips(trips)}, {"c", Bool(condition)}, {"x", Floats({2}, {1, 2})}, {"limit", Tensor::Scalar(limit)}};
}

TEST_CASE("Loop carries values and stacks what its iterations make") {
  Runner run(kLoop);
  for (int i = 0; i < 2; ++i) {
    auto out = run(LoopFeeds(3, true, 100));
    CHECK(FloatsOf(out[0].second) == Numbers{3, 6});
    CHECK(out[1].second.dims() == Dims{3, 2});
    CHECK(FloatsOf(out[1].second) == Numbers{1, 2, 2, 4, 3, 6});
    out = run(LoopFeeds(50, true, 2));
    CHECK(FloatsOf(out[0].second) == Numbers{2, 4});
    CHECK(FloatsOf(out[1].second) == Numbers{1, 2, 2, 4});
  }
}

TEST_CASE("a Loop of no iterations gives what it was given and empty stacks") {
  Runner run(kLoop);
  for (const auto& feeds :
       {LoopFeeds(0, true, 100), LoopFeeds(-5, true, 100), LoopFeeds(INT64_MIN, true, 100), LoopFeeds(9, false, 100)}) {
    const auto out = run(feeds);
    CHECK(FloatsOf(out[0].second) == Numbers{0, 0});
    CHECK(out[1].second.dims() == Dims{0, 2});
    CHECK(out[1].second.dtype() == DType::kFloat);
  }
}

TEST_CASE("a promised trip count takes no memory before its iterations run") {
  Runner run(kLoop);
  CHECK(FloatsOf(run(LoopFeeds(INT64_MAX, true, 5))[0].second) == Numbers{5, 10});
}

TEST_CASE("Loop without a trip count or condition runs until the body ends it") {
  Runner run(R"(g (float[1] x) => (int64 n) <int64 zero = {0}, int64 one = {1}, int64 five = {5}> {
    n = Loop("", "", zero) <body = b (int64 i, bool going, int64 k) => (bool go_on, int64 next) {
      next = Add(k, one)
      go_on = Less(next, five)
    }>
  })");
  const auto out = run({{"x", Floats({1}, {0})}});
  CHECK(out[0].second.data<int64_t>()[0] == 5);
}

TEST_CASE("Loop's body may give its inputs back, and constants and values from around it") {
  Runner run(R"(g (int64 trips, float[2] x) => (float[2] a, float[2] b, float[2] c, int64[N] is, float[N,2] xs) <
      bool yes = {1}, float[2] w = {7, 8}> {
    y = Neg(x)
    a, b, c, is, xs = Loop(trips, yes, x, y, w) <body = body (int64 i, bool going, float[2] p, float[2] q, float[2] r)
      => (bool going, float[2] q, float[2] p, float[2] w, int64 i, float[2] x) { }>
  })");
  for (int i = 0; i < 2; ++i) {
    const auto out = run({{"trips", Trips(3)}, {"x", Floats({2}, {1, 2})}});
    CHECK(FloatsOf(out[0].second) == Numbers{-1, -2});
    CHECK(FloatsOf(out[1].second) == Numbers{1, 2});
    CHECK(FloatsOf(out[2].second) == Numbers{7, 8});
    const auto is = out[3].second.data<int64_t>();
    CHECK(std::vector<int64_t>(is.begin(), is.end()) == std::vector<int64_t>{0, 1, 2});
    CHECK(FloatsOf(out[4].second) == Numbers{1, 2, 1, 2, 1, 2});
  }
}

TEST_CASE("an If inside a Loop reads values of both") {
  Runner run(R"(g (int64 trips, float[1] x) => (float[1] total, float[N,1] parts) <
      bool yes = {1}, int64 two = {2}, int64 none = {0}, float[1] start = {100}> {
    double = Add(x, x)
    total, parts = Loop(trips, yes, start) <body = body (int64 i, bool going, float[1] sum)
      => (bool go_on, float[1] next, float[1] part) {
      go_on = Identity(going)
      rest = Mod(i, two)
      even = Equal(rest, none)
      half = Abs(sum)
      part = If(even) <
        then_branch = t () => (float[1] p) { m = Mul(double, double)  p = Sub(m, x) },
        else_branch = e () => (float[1] q) { q = Neg(half) }>
      next = Add(sum, part)
    }>
  })");
  for (int i = 0; i < 2; ++i) {
    const auto out = run({{"trips", Trips(3)}, {"x", Floats({1}, {3})}});
    // 36 - 3 = 33; then minus what there is; then 33 again.
    CHECK(FloatsOf(out[0].second) == Numbers{33});
    CHECK(FloatsOf(out[1].second) == Numbers{33, -133, 33});
  }
}

TEST_CASE("a Loop inside a Loop starts anew each time") {
  Runner run(
      R"(g (int64 n, int64 m) => (int64 total, int64[N,M] grid) <bool yes = {1}, int64 zero = {0}, int64 ten = {10}> {
    total, grid = Loop(n, yes, zero) <body = outer (int64 i, bool g, int64 sum) => (bool g, int64 next, int64[M] row) {
      tens = Mul(i, ten)
      next, row = Loop(m, yes, sum) <body = inner (int64 j, bool h, int64 s) => (bool h, int64 t, int64 cell) {
        cell = Add(tens, j)
        t = Add(s, cell)
      }>
    }>
  })");
  const auto out = run({{"n", Trips(2)}, {"m", Trips(3)}});
  CHECK(out[0].second.data<int64_t>()[0] == 0 + 1 + 2 + 10 + 11 + 12);
  CHECK(out[1].second.dims() == Dims{2, 3});
  const auto grid = out[1].second.data<int64_t>();
  CHECK(std::vector<int64_t>(grid.begin(), grid.end()) == std::vector<int64_t>{0, 1, 2, 10, 11, 12});
}

TEST_CASE("the probe sees a Loop's values once for each iteration") {
  Runner run(kLoop);
  Names seen;
  run(LoopFeeds(2, true, 100), [&](const std::string& name, const Tensor&) {
    seen.push_back(name);
    return OkStatus();
  });
  CHECK(seen == Names{"zero", "next", "seen", "first", "go_on", "next", "seen", "first", "go_on", "total", "sums"});
}

TEST_CASE("a Loop whose inputs or body do not fit is an error") {
  const auto error = [](const std::string& trips, const std::string& condition, const std::string& body,
                        const Tensor& trip_feed, const Tensor& condition_feed) {
    Runner run("g (" + trips + " n, " + condition + " c, float[2] x) => (float[2] y) { y = Loop(n, c, x) <body = b " +
               body + "> }");
    return run.Error({{"n", trip_feed}, {"c", condition_feed}, {"x", Floats({2}, {1, 2})}});
  };
  const std::string good = "(int64 i, bool g, float[2] s) => (bool g, float[2] t) { t = Neg(s) }";
  CHECK(Has(error("float", "bool", good, Tensor::Scalar(2.0f), Bool(true)), "not one int64"));
  CHECK(Has(error("int64[2]", "bool", good, Ints({2}, {1, 2}), Bool(true)), "int64[2], not one int64"));
  CHECK(Has(error("int64", "int64", good, Trips(1), Trips(1)), "not one bool"));
  const auto body_error = [&](const std::string& body) { return error("int64", "bool", body, Trips(2), Bool(true)); };
  CHECK(Has(body_error("(int64 i, bool g) => (bool g, float[2] t) { t = Neg(x) }"), "2 inputs where 3 belong"));
  CHECK(Has(body_error("(int64 i, bool g, float[2] s, float[2] u) => (bool g, float[2] t) { t = Neg(s) }"),
            "4 inputs where 3 belong"));
  CHECK(Has(body_error("(int64 i, bool g, float[2] s) => (bool g) { t = Neg(s) }"), "1 outputs where 2 belong"));
  CHECK(Has(body_error("(int64 i, bool g, float[2] s) => () { t = Neg(s) }"), "0 outputs where 2 belong"));
  CHECK(Has(body_error("(int64 i, bool g, float[2] s) => (float[2] t, float[2] u) { t = Neg(s)  u = Abs(s) }"),
            "the body's condition is float32[2]"));
}

TEST_CASE("a Loop without a body, or that carries more than it gives, is an error") {
  const NamedTensors feeds = {{"n", Trips(1)}, {"c", Bool(true)}, {"x", Floats({2}, {1, 2})}};
  CHECK(Has(Runner("g (int64 n, bool c, float[2] x) => (float[2] y) { y = Loop(n, c, x) }").Error(feeds), "body"));
  CHECK(Has(Runner(R"(g (int64 n, bool c, float[2] x) => (float[2] y) { y = Loop(n, c, x, x) <
      body = b (int64 i, bool g, float[2] s, float[2] u) => (bool g, float[2] t, float[2] u) { t = Neg(s) }> })")
                .Error(feeds),
            "carries 2 values"));
  CHECK(Has(Runner(R"(g (int64 n, bool c, float[2] x) => (float[2] y, float[2] z) { y, z = Loop(n, c, "", x) <
      body = b (int64 i, bool g, float[2] s, float[2] u) => (bool g, float[2] t, float[2] u) { t = Neg(u) }> })")
                .Error(feeds),
            "left out"));
}

TEST_CASE("iterations whose parts differ in shape can not be stacked") {
  Runner run(R"(g (int64 n, float[M] x) => (float[K] y, float[P,Q] ys) <bool yes = {1}> {
    y, ys = Loop(n, yes, x) <body = b (int64 i, bool g, float[R] s) => (bool g, float[T] t, float[U] u) {
      t = Concat<axis = 0>(s, s)
      u = Identity(t)
    }>
  })");
  const Tensor x = Floats({1}, {4});
  CHECK(run({{"n", Trips(1)}, {"x", x}})[1].second.dims() == Dims{1, 2});
  CHECK(Has(run.Error({{"n", Trips(2)}, {"x", x}}), "float32[2] and float32[4]"));
}

// Running sums of the rows of xs.
std::string ScanText(const std::string& attributes, const std::string& xs = "float[3,2]") {
  return "g (float[2] start, " + xs + R"( xs) => (float[2] last, float[M,N] sums) {
    last, sums = Scan<num_scan_inputs = 1)" +
         attributes + R"(, body = b (float[2] s, float[2] x) => (float[2] t, float[2] seen) {
      t = Add(s, x)
      seen = Identity(t)
    }>(start, xs)
  })";
}
const Tensor kStart = Floats({2}, {100, 200});
const Tensor kRows = Floats({3, 2}, {1, 2, 3, 4, 5, 6});

TEST_CASE("Scan runs its body for each slice") {
  Runner run(ScanText(""));
  for (int i = 0; i < 2; ++i) {
    const auto out = run({{"start", kStart}, {"xs", kRows}});
    CHECK(FloatsOf(out[0].second) == Numbers{109, 212});
    CHECK(out[1].second.dims() == Dims{3, 2});
    CHECK(FloatsOf(out[1].second) == Numbers{101, 202, 104, 206, 109, 212});
  }
}

TEST_CASE("Scan goes backwards through its inputs, and stacks backwards") {
  const auto sums = [](const std::string& attributes) {
    Runner run(ScanText(attributes));
    return FloatsOf(run({{"start", kStart}, {"xs", kRows}})[1].second);
  };
  CHECK(sums(", scan_input_directions = [1]") == Numbers{105, 206, 108, 210, 109, 212});
  CHECK(sums(", scan_output_directions = [1]") == Numbers{109, 212, 104, 206, 101, 202});
  CHECK(sums(", scan_input_directions = [1], scan_output_directions = [1]") == Numbers{109, 212, 108, 210, 105, 206});
}

TEST_CASE("Scan takes slices along any axis and stacks along any") {
  const Tensor columns = Floats({2, 3}, {1, 3, 5, 2, 4, 6});
  for (const char* axis : {"1", "-1"}) {
    Runner in(ScanText(std::string(", scan_input_axes = [") + axis + "]", "float[2,3]"));
    CHECK(FloatsOf(in({{"start", kStart}, {"xs", columns}})[1].second) == Numbers{101, 202, 104, 206, 109, 212});
    Runner out(ScanText(std::string(", scan_output_axes = [") + axis + "]"));
    const auto made = out({{"start", kStart}, {"xs", kRows}});
    CHECK(made[1].second.dims() == Dims{2, 3});
    CHECK(FloatsOf(made[1].second) == Numbers{101, 104, 109, 202, 206, 212});
  }
  Runner both(ScanText(", scan_input_axes = [1], scan_output_axes = [-2], scan_output_directions = [1]", "float[2,3]"));
  CHECK(FloatsOf(both({{"start", kStart}, {"xs", columns}})[1].second) == Numbers{109, 212, 104, 206, 101, 202});
}

TEST_CASE("a Scan over nothing gives its states back and empty stacks") {
  Runner run(ScanText(", scan_output_axes = [1]", "float[K,2]"));
  const auto out = run({{"start", kStart}, {"xs", Tensor::Allocate(DType::kFloat, {0, 2})}});
  CHECK(FloatsOf(out[0].second) == Numbers{100, 200});
  CHECK(out[1].second.dims() == Dims{2, 0});
}

TEST_CASE("a Scan's inputs may have axes and directions of their own") {
  Runner run(R"(g (float[3,2] a, float[2,3] b) => (float[2,3] ys) <float[2] w = {1000, 2000}> {
    ys = Scan<num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1], scan_output_axes = [1],
              body = body (float[2] p, float[2] q) => (float[2] r) { pq = Add(p, q)  r = Add(pq, w) }>(a, b)
  })");
  const auto out = run({{"a", kRows}, {"b", Floats({2, 3}, {10, 20, 30, 40, 50, 60})}});
  CHECK(out[0].second.dims() == Dims{2, 3});
  CHECK(FloatsOf(out[0].second) == Numbers{1031, 1023, 1015, 2062, 2054, 2046});
}

TEST_CASE("a Scan whose inputs, axes or body do not fit is an error") {
  const auto error = [](const std::string& attributes) {
    return Runner(ScanText(attributes)).Error({{"start", kStart}, {"xs", kRows}});
  };
  CHECK(Has(error(", scan_input_axes = [2]"), "axis 2 of a scanned input of rank 2"));
  CHECK(Has(error(", scan_input_axes = [-3]"), "axis -3"));
  CHECK(Has(error(", scan_output_axes = [2]"), "axis 2 of an output of rank 2"));
  CHECK(Has(error(", scan_output_axes = [-3]"), "axis -3"));
  const auto text_error = [](const std::string& scan) {
    return Runner("g (float[2] start, float[3,2] xs) => (float[2] y) { y = Scan<" + scan + " }")
        .Error({{"start", kStart}, {"xs", kRows}});
  };
  const std::string body = "body = b (float[2] s, float[2] x) => (float[2] t) { t = Add(s, x) }>(start, xs)";
  CHECK(Has(text_error("num_scan_inputs = 0, " + body), "0 of its 2 inputs are scanned"));
  CHECK(Has(text_error("num_scan_inputs = 3, " + body), "3 of its 2 inputs are scanned"));
  CHECK(Has(text_error("num_scan_inputs = -9223372036854775807, " + body), "inputs are scanned"));
  CHECK(Has(text_error("num_scan_inputs = 2, " + body), "lengths 2 and 3"));
  CHECK(Has(text_error("num_scan_inputs = 1, body = b (float[2] x) => (float[2] t) { t = Neg(x) }>(start, xs)"),
            "1 inputs where 2 belong"));
  CHECK(
      Has(text_error("num_scan_inputs = 1, body = b (float[2] s, float[2] x) => (float[2] t, float[2] u) { t = Add(s, "
                     "x)  u = Neg(x) }>(start, xs)"),
          "2 outputs where 1 belong"));
  CHECK(Has(text_error("num_scan_inputs = 1>(start, xs)"), "body"));
  const std::string without = body.substr(0, body.rfind('(')) + "(start, \"\")";
  CHECK(Has(text_error("num_scan_inputs = 1, " + without), "an input is left out"));
}

TEST_CASE("a scanned scalar is an error") {
  Runner run(R"(g (float x) => (float[N] y) {
    y = Scan<num_scan_inputs = 1, body = b (float s) => (float t) { t = Neg(s) }>(x)
  })");
  CHECK(Has(run.Error({{"x", Tensor::Scalar(1.0f)}}), "axis 0 of a scanned input of rank 0"));
}

TEST_CASE("the times of nodes add up: a loop's is its own, without its body's nodes and without the probe") {
  Runner run(R"(g (float[2] x) => (float[2] y) {
    n = Constant<value_int = 4>()
    y = Loop(n, "", x)<body = b (int64 i, bool k, float[2] a) => (bool k, float[2] d) { c = Neg(a)  d = Abs(c) }>
  })");
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  double timed = 0, probed = 0;
  std::map<std::string, int> calls;
  const RunHooks hooks = {
      .probe =
          [&](const std::string&, const Tensor&) {
            const auto begin = Clock::now();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            probed += since(begin);
            return OkStatus();
          },
      .timed =
          [&](std::span<const NodeId> nodes, double seconds) {
            ++calls[run.model.graph.node(nodes[0]).op_type];
            CHECK(seconds >= 0);
            timed += seconds;
          },
  };
  const auto begin = Clock::now();
  REQUIRE(run.session->Run({{"x", Floats({2}, {1, 2})}}, hooks).ok());
  CHECK(timed + probed <= since(begin));
  CHECK(calls == std::map<std::string, int>{{"Abs", 4}, {"Loop", 1}, {"Neg", 4}});
}

TEST_CASE("a trip count is bounded when the caller says so") {
  const char* const kEndless = R"(g (float[2] x) => (float[2] y) {
    n = Constant<value_int = 4611686018427387904>()
    y = Loop(n, "", x)<body = b (int64 i, bool k, float[2] a) => (bool k, float[2] a) {}>
  })";
  Runner run(kEndless, {.max_body_runs = 1000});
  CHECK(Has(run.Error({{"x", Floats({2}, {1, 2})}}), "bodies are run more than 1000 times"));
  // Each run counts anew.
  Runner three(R"(g (float[2] x) => (float[2] y) {
    n = Constant<value_int = 3>()
    y = Loop(n, "", x)<body = b (int64 i, bool k, float[2] a) => (bool k, float[2] c) { c = Neg(a) }>
  })",
               {.max_body_runs = 3});
  for (int i = 0; i < 3; ++i) CHECK(FloatsOf(three({{"x", Floats({2}, {1, 2})}})[0].second) == Numbers{-1, -2});
}

}  // namespace
}  // namespace quant
