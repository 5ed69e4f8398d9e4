// LSTM, GRU and RNN against plain loops in double.
#include "libquant/ops/recurrent.h"

#include <algorithm>

#include "tests/ops/run_op.h"

namespace quant {
namespace {

using Doubles = std::vector<double>;

enum class Kind { kRnn, kGru, kLstm };

const OpDef& OpOf(Kind kind) { return *FindOp("", kind == Kind::kLstm ? "LSTM" : kind == Kind::kGru ? "GRU" : "RNN"); }
int64_t GatesOf(Kind kind) { return kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1; }

struct Case {
  Kind kind = Kind::kLstm;
  std::string direction = "forward";
  int64_t layout = 0;
  bool bias = true, states = true, peepholes = false, linear = false, coupled = false;
  float clip = 0;
  std::vector<int32_t> lengths = {};
  int64_t steps = 5, batch = 3, inputs = 4, hidden = 6;

  int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
  Dims StateDims() const { return layout != 0 ? Dims{batch, directions(), hidden} : Dims{directions(), batch, hidden}; }
};

std::vector<Tensor> InputsOf(const Case& c) {
  const int64_t width = GatesOf(c.kind) * c.hidden, d = c.directions();
  std::vector<Tensor> in(8);
  in[0] = RandomTensor(c.layout != 0 ? Dims{c.batch, c.steps, c.inputs} : Dims{c.steps, c.batch, c.inputs}, 1);
  in[1] = RandomTensor({d, width, c.inputs}, 2);
  in[2] = RandomTensor({d, width, c.hidden}, 3);
  if (c.bias) in[3] = RandomTensor({d, 2 * width}, 4);
  if (!c.lengths.empty()) in[4] = Make<int32_t>({c.batch}, c.lengths);
  if (c.states) in[5] = RandomTensor(c.StateDims(), 5);
  if (c.states && c.kind == Kind::kLstm) in[6] = RandomTensor(c.StateDims(), 6);
  if (c.peepholes) in[7] = RandomTensor({d, 3 * c.hidden}, 7);
  if (c.kind != Kind::kLstm) in.resize(6);
  return in;
}

OpCall CallOf(const Case& c) {
  OpCall call;
  call.outputs = c.kind == Kind::kLstm ? 3 : 2;
  call.attributes = {{"direction", c.direction}, {"hidden_size", c.hidden}, {"layout", c.layout}};
  if (c.clip > 0) call.attributes.emplace_back("clip", c.clip);
  if (c.linear) call.attributes.emplace_back("linear_before_reset", int64_t{1});
  if (c.coupled) call.attributes.emplace_back("input_forget", int64_t{1});
  return call;
}

struct Reference {
  Doubles y, h, c;
};

Reference Expect(const Case& c, const std::vector<Tensor>& in) {
  const int64_t n = c.hidden, gates = GatesOf(c.kind), width = gates * n, dirs = c.directions();
  const auto at = [](const Tensor& t, int64_t i) { return double{t.data<float>()[static_cast<size_t>(i)]}; };
  const auto put = [](Doubles& to, int64_t i, double v) { to[static_cast<size_t>(i)] = v; };
  const auto state_at = [&](int64_t d, int64_t b, int64_t k) {
    return (c.layout != 0 ? b * dirs + d : d * c.batch + b) * n + k;
  };
  const auto clipped = [&](double v) { return c.clip > 0 ? std::clamp(v, -double{c.clip}, double{c.clip}) : v; };
  const auto sigmoid = [&](double v) { return 1 / (1 + std::exp(-clipped(v))); };
  const auto tanh = [&](double v) { return std::tanh(clipped(v)); };
  Reference out;
  out.y.assign(static_cast<size_t>(c.steps * dirs * c.batch * n), 0);
  out.h.assign(static_cast<size_t>(dirs * c.batch * n), 0);
  out.c = out.h;
  for (int64_t d = 0; d < dirs; ++d) {
    const bool backwards = c.direction == "reverse" || d == 1;
    for (int64_t b = 0; b < c.batch; ++b) {
      Doubles h(static_cast<size_t>(n), 0), cell(static_cast<size_t>(n), 0);
      for (int64_t k = 0; k < n && c.states; ++k) {
        put(h, k, at(in[5], state_at(d, b, k)));
        if (c.kind == Kind::kLstm) put(cell, k, at(in[6], state_at(d, b, k)));
      }
      const int64_t length = c.lengths.empty() ? c.steps : c.lengths[static_cast<size_t>(b)];
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = backwards ? length - 1 - s : s;
        const auto of_x = [&](int64_t row) {
          double sum = c.bias ? at(in[3], d * 2 * width + row) : 0;
          for (int64_t i = 0; i < c.inputs; ++i) {
            sum += at(in[0], (c.layout != 0 ? b * c.steps + t : t * c.batch + b) * c.inputs + i) *
                   at(in[1], (d * width + row) * c.inputs + i);
          }
          return sum;
        };
        const auto of_h = [&](int64_t row, const Doubles& state) {
          double sum = c.bias ? at(in[3], d * 2 * width + width + row) : 0;
          for (int64_t i = 0; i < n; ++i) sum += state[static_cast<size_t>(i)] * at(in[2], (d * width + row) * n + i);
          return sum;
        };
        const auto peep = [&](int64_t gate, int64_t k) {
          return c.peepholes ? at(in[7], d * 3 * n + gate * n + k) : 0;
        };
        Doubles next = h;
        Doubles reset = h;
        for (int64_t k = 0; k < n && c.kind == Kind::kGru; ++k) {
          put(reset, k, sigmoid(of_x(n + k) + of_h(n + k, h)) * h[static_cast<size_t>(k)]);
        }
        for (int64_t k = 0; k < n; ++k) {
          const double old = h[static_cast<size_t>(k)], old_cell = cell[static_cast<size_t>(k)];
          if (c.kind == Kind::kRnn) {
            put(next, k, tanh(of_x(k) + of_h(k, h)));
          } else if (c.kind == Kind::kGru) {
            const double z = sigmoid(of_x(k) + of_h(k, h));
            const double r = sigmoid(of_x(n + k) + of_h(n + k, h));
            const double g = c.linear ? tanh(of_x(2 * n + k) + r * of_h(2 * n + k, h))
                                      : tanh(of_x(2 * n + k) + of_h(2 * n + k, reset));
            put(next, k, (1 - z) * g + z * old);
          } else {
            const double i = sigmoid(of_x(k) + of_h(k, h) + peep(0, k) * old_cell);
            const double f = c.coupled ? 1 - i : sigmoid(of_x(2 * n + k) + of_h(2 * n + k, h) + peep(2, k) * old_cell);
            const double g = tanh(of_x(3 * n + k) + of_h(3 * n + k, h));
            const double fresh = f * old_cell + i * g;
            const double o = sigmoid(of_x(n + k) + of_h(n + k, h) + peep(1, k) * fresh);
            put(cell, k, fresh);
            put(next, k, o * std::tanh(fresh));
          }
        }
        h = next;
        const int64_t row = c.layout != 0 ? (b * c.steps + t) * dirs + d : (t * dirs + d) * c.batch + b;
        for (int64_t k = 0; k < n; ++k) put(out.y, row * n + k, h[static_cast<size_t>(k)]);
      }
      for (int64_t k = 0; k < n; ++k) {
        put(out.h, state_at(d, b, k), h[static_cast<size_t>(k)]);
        put(out.c, state_at(d, b, k), cell[static_cast<size_t>(k)]);
      }
    }
  }
  return out;
}

void Check(const Case& c) {
  const auto inputs = InputsOf(c);
  const Reference wanted = Expect(c, inputs);
  auto made = RunOp(OpOf(c.kind), inputs, CallOf(c));
  INFO(OpOf(c.kind).name << " " << c.direction << " layout " << c.layout << ": " << Message(made.status()));
  REQUIRE(made.ok());
  CHECK((*made)[0].dims() == (c.layout != 0 ? Dims{c.batch, c.steps, c.directions(), c.hidden}
                                            : Dims{c.steps, c.directions(), c.batch, c.hidden}));
  CHECK((*made)[1].dims() == c.StateDims());
  RequireClose<float>((*made)[0], wanted.y, 2e-6);
  RequireClose<float>((*made)[1], wanted.h, 2e-6);
  if (c.kind == Kind::kLstm) RequireClose<float>((*made)[2], wanted.c, 2e-6);
}

const std::vector<Kind> kAll = {Kind::kRnn, Kind::kGru, Kind::kLstm};

TEST_CASE("recurrent operators agree with a plain loop in every direction and layout") {
  for (const Kind kind : kAll) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      for (const int64_t layout : {0, 1}) {
        Case c;
        c.kind = kind, c.direction = direction, c.layout = layout;
        Check(c);
        c.lengths = {5, 0, 2};
        Check(c);
      }
    }
  }
}

TEST_CASE("biases, states and lengths may be left out") {
  for (const Kind kind : kAll) {
    for (const bool bias : {false, true}) {
      Case c;
      c.kind = kind, c.bias = bias, c.states = !bias;
      Check(c);
      c.direction = "bidirectional", c.lengths = {1, 5, 3};
      Check(c);
    }
  }
}

TEST_CASE("clip bounds what goes into the gates") {
  for (const Kind kind : kAll) {
    Case c;
    c.kind = kind, c.clip = 0.4f, c.direction = "bidirectional";
    Check(c);
  }
}

TEST_CASE("LSTM's peepholes see the old cell for input and forget gates, the new one for the output gate") {
  for (const bool coupled : {false, true}) {
    for (const int64_t layout : {0, 1}) {
      Case c;
      c.peepholes = true, c.coupled = coupled, c.layout = layout, c.direction = "bidirectional", c.lengths = {4, 5, 1};
      Check(c);
      c.clip = 0.7f;
      Check(c);
    }
  }
}

TEST_CASE("LSTM's forget gate is what the input gate leaves when they are coupled") {
  Case c;
  c.coupled = true;
  Check(c);
}

TEST_CASE("GRU resets before or after the product with R") {
  for (const bool bias : {false, true}) {
    for (const bool linear : {false, true}) {
      Case c;
      c.kind = Kind::kGru, c.linear = linear, c.bias = bias, c.direction = "bidirectional", c.layout = 1;
      Check(c);
      c.lengths = {0, 3, 5}, c.clip = 0.5f;
      Check(c);
    }
  }
}

TEST_CASE("recurrent operators take one step, one sequence and one unit") {
  for (const Kind kind : kAll) {
    Case c;
    c.kind = kind, c.steps = 1, c.batch = 1, c.inputs = 1, c.hidden = 1, c.peepholes = kind == Kind::kLstm;
    Check(c);
  }
}

TEST_CASE("recurrent operators over nothing give the states they were given") {
  for (const Kind kind : kAll) {
    for (const int64_t layout : {0, 1}) {
      Case none;
      none.kind = kind, none.layout = layout, none.steps = 0;
      Check(none);
      none.steps = 2, none.batch = 0;
      Check(none);
      none.batch = 2, none.hidden = 0;
      Check(none);
      none.hidden = 3, none.inputs = 0;
      Check(none);
    }
  }
}

TEST_CASE("recurrent operators give the same bytes for any number of threads") {
  for (const Kind kind : kAll) {
    Case c;
    c.kind = kind, c.direction = "bidirectional", c.batch = 17, c.inputs = 33, c.hidden = 41;
    OpCall call = CallOf(c);
    call.outputs = 1;
    RequireThreadsAgree(OpOf(kind), InputsOf(c), call);
  }
}

TEST_CASE("recurrent operators take float64 and float16") {
  for (const Kind kind : kAll) {
    Case c;
    c.kind = kind;
    const auto inputs = InputsOf(c);
    const Reference wanted = Expect(c, inputs);
    std::vector<Tensor> wide(inputs.size()), narrow(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) continue;
      wide[i] = CastTo<double>(inputs[i]);
      narrow[i] = CastTo<float16>(inputs[i]);
    }
    auto made = RunOp(OpOf(kind), wide, CallOf(c));
    REQUIRE(made.ok());
    RequireClose<double>((*made)[0], wanted.y, 1e-12);
    made = RunOp(OpOf(kind), narrow, CallOf(c));
    REQUIRE(made.ok());
    RequireClose<float16>((*made)[0], wanted.y, 3e-2);
  }
}

TEST_CASE("activations are named in any case, with parameters for those that have some") {
  // One unit, one input, no recurrence: y = f(x).
  const auto run = [](const std::string& name, float x, std::vector<float> alpha, std::vector<float> beta) {
    OpCall call;
    call.attributes = {{"activations", std::vector<std::string>{name}}};
    if (!alpha.empty()) call.attributes.emplace_back("activation_alpha", std::move(alpha));
    if (!beta.empty()) call.attributes.emplace_back("activation_beta", std::move(beta));
    const Tensor one = Make<float>({1, 1, 1}, {1}), zero = Make<float>({1, 1, 1}, {0});
    return double{RunOne(*FindOp("", "RNN"), {Make<float>({1, 1, 1}, {x}), one, zero}, call).data<float>()[0]};
  };
  CHECK(run("TANH", 0.5f, {}, {}) == Approx(std::tanh(0.5)));
  CHECK(run("relu", -0.5f, {}, {}) == 0);
  CHECK(run("Affine", 2, {3}, {4}) == Approx(10));
  CHECK(run("LeakyRelu", -2, {}, {}) == Approx(-0.02));
  CHECK(run("LeakyRelu", -2, {0.5f}, {}) == Approx(-1));
  CHECK(run("ThresholdedRelu", 0.9f, {}, {}) == 0);
  CHECK(run("ThresholdedRelu", 0.9f, {0.5f}, {}) == Approx(0.9));
  CHECK(run("ScaledTanh", 1, {2}, {0.5f}) == Approx(2 * std::tanh(0.5)));
  CHECK(run("HardSigmoid", 1, {}, {}) == Approx(0.7));
  CHECK(run("HardSigmoid", 9, {}, {}) == Approx(1));
  CHECK(run("Elu", -1, {}, {}) == Approx(std::expm1(-1.0)));
  CHECK(run("Softsign", -1, {}, {}) == Approx(-0.5));
  CHECK(run("Softplus", 0, {}, {}) == Approx(std::log(2.0)));
  CHECK(run("Softplus", 200, {}, {}) == Approx(200));
  CHECK(run("Sigmoid", -200, {}, {}) == Approx(0).margin(1e-30));
}

TEST_CASE("wrong shapes, types and words of recurrent operators are refused") {
  for (const Kind kind : kAll) {
    Case c;
    c.kind = kind, c.lengths = {5, 4, 3}, c.peepholes = kind == Kind::kLstm;
    const auto good = InputsOf(c);
    for (size_t i = 0; i < good.size(); ++i) {
      const Dims dims = good[i].dims();
      const auto refuse = [&](Dims wrong) {
        auto inputs = good;
        const bool lengths = good[i].dtype() == DType::kInt32;
        inputs[i] = lengths ? Tensor::Allocate(DType::kInt32, wrong) : RandomTensor(wrong, 9);
        for (size_t k = 0; lengths && k < static_cast<size_t>(inputs[i].size()); ++k) {
          inputs[i].mutable_data<int32_t>()[k] = 1;
        }
        INFO("input " << i << " of " << ToString(wrong));
        const auto made = RunOp(OpOf(kind), inputs, CallOf(c));
        REQUIRE(!made.ok());
        CHECK(ExitCode(made.status()) == 3);
      };
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        if (i == 0 && axis == 0) continue;  // another number of steps is none
        Dims wrong = dims;
        wrong[axis] += 1;
        refuse(wrong);
        wrong[axis] = 0;
        refuse(wrong);
      }
      Dims longer = dims;
      longer.push_back(1);
      refuse(longer);
      refuse({});
    }
    for (const int32_t length : {-1, 6, INT32_MAX, INT32_MIN}) {
      auto inputs = good;
      inputs[4] = Make<int32_t>({3}, {1, length, 2});
      RequireRefused(OpOf(kind), inputs, CallOf(c));
    }
    auto typed = good;
    typed[4] = Make<int64_t>({3}, {1, 1, 2});
    RequireRefused(OpOf(kind), typed, CallOf(c));
    for (const size_t i : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{5}}) {
      auto mixed = good;
      mixed[i] = CastTo<double>(good[i]);
      RequireRefused(OpOf(kind), mixed, CallOf(c));
    }
    const auto refuse_attribute = [&](const std::string& name, AttributeValue value) {
      OpCall call = CallOf(c);
      std::erase_if(call.attributes, [&](const auto& a) { return a.first == name; });
      call.attributes.emplace_back(name, std::move(value));
      RequireRefused(OpOf(kind), good, call);
    };
    refuse_attribute("direction", std::string("sideways"));
    refuse_attribute("direction", std::string("bidirectional"));  // the weights are of one
    refuse_attribute("activations", std::vector<std::string>{"Zork", "Zork", "Zork"});
    if (kind != Kind::kRnn) refuse_attribute("activations", std::vector<std::string>{"Tanh"});
  }
}

}  // namespace
}  // namespace quant
