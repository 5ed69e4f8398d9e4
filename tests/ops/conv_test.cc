#include "libquant/ops/window.h"
#include "tests/ops/run_op.h"

namespace quant {
const OpDef& ConvOp();
const OpDef& ConvTransposeOp();

namespace {

struct Geometry {
  Dims in;      // spatial
  Dims kernel;  // spatial
  Ints strides, dilations, pads;
};

// The definition, for any number of spatial axes: `visit(out, in, tap)` for every tap of every output position that
// lies inside the input, as flat indices. Positions follow in * `forward` and reversed for ConvTranspose.
template <typename F>
void ForTaps(const Geometry& g, const Dims& out, F&& visit) {
  const size_t rank = g.in.size();
  for (int64_t o = 0; o < Count(out); ++o) {
    for (int64_t t = 0; t < Count(g.kernel); ++t) {
      int64_t at = 0, o_rest = o, t_rest = t, step = 1;
      bool inside = true;
      for (size_t back = 1; back <= rank; ++back) {
        const size_t i = rank - back;
        const int64_t position = o_rest % out[i] * g.strides[i] - g.pads[i] + t_rest % g.kernel[i] * g.dilations[i];
        inside = inside && position >= 0 && position < g.in[i];
        at += position * step;
        step *= g.in[i];
        o_rest /= out[i];
        t_rest /= g.kernel[i];
      }
      if (inside) visit(o, at, t);
    }
  }
}

Dims OutDims(const Geometry& g) {
  Dims out;
  const size_t rank = g.in.size();
  for (size_t i = 0; i < rank; ++i) {
    const int64_t extent = (g.kernel[i] - 1) * g.dilations[i] + 1;
    out.push_back((g.in[i] + g.pads[i] + g.pads[rank + i] - extent) / g.strides[i] + 1);
  }
  return out;
}

struct Channels {
  int64_t batch, groups, in, out;  // in, out: of one group
};

Dims Join(Dims head, const Dims& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

std::vector<double> PlainConv(const Geometry& g, const Channels& c, const Tensor& x, const Tensor& w,
                              const Tensor& bias) {
  const Dims out = OutDims(g);
  const int64_t out_plane = Count(out), in_plane = Count(g.in), taps = Count(g.kernel);
  std::vector<double> y;
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t m = 0; m < c.groups * c.out; ++m) {
      std::vector<double> plane(static_cast<size_t>(out_plane), bias.data<float>()[static_cast<size_t>(m)]);
      for (int64_t i = 0; i < c.in; ++i) {
        const float* in = x.data<float>().data() + ((n * c.groups + m / c.out) * c.in + i) * in_plane;
        const float* filter = w.data<float>().data() + (m * c.in + i) * taps;
        ForTaps(g, out, [&](int64_t o, int64_t at, int64_t t) {
          plane[static_cast<size_t>(o)] += static_cast<double>(in[at]) * filter[t];
        });
      }
      y.insert(y.end(), plane.begin(), plane.end());
    }
  }
  return y;
}

// The transpose of the convolution `g`, whose output is the node's input.
std::vector<double> PlainConvTranspose(const Geometry& g, const Channels& c, const Tensor& x, const Tensor& w,
                                       const Tensor& bias) {
  const Dims small = OutDims(g);
  const int64_t small_plane = Count(small), plane = Count(g.in), taps = Count(g.kernel);
  std::vector<double> y(static_cast<size_t>(c.batch * c.groups * c.out * plane));
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t m = 0; m < c.groups * c.out; ++m) {
      double* out = y.data() + (n * c.groups * c.out + m) * plane;
      std::fill_n(out, plane, bias.data<float>()[static_cast<size_t>(m)]);
      for (int64_t i = 0; i < c.in; ++i) {
        const int64_t channel = m / c.out * c.in + i;
        const float* in = x.data<float>().data() + (n * c.groups * c.in + channel) * small_plane;
        const float* filter = w.data<float>().data() + (channel * c.out + m % c.out) * taps;
        ForTaps(g, small,
                [&](int64_t from, int64_t to, int64_t t) { out[to] += static_cast<double>(in[from]) * filter[t]; });
      }
    }
  }
  return y;
}

AttributeList AttributesOf(const Geometry& g, int64_t groups) {
  return {{"strides", g.strides}, {"dilations", g.dilations}, {"pads", g.pads}, {"group", groups}};
}

const std::vector<Geometry>& Geometries() {
  static const std::vector<Geometry> all = {
      {{17}, {3}, {1}, {1}, {1, 1}},
      {{40}, {5}, {3}, {2}, {4, 0}},
      {{5, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{6, 9}, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
      {{13, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {{13, 70}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
      {{11, 40}, {3, 2}, {3, 2}, {2, 3}, {0, 2, 3, 1}},
      {{2, 3}, {4, 5}, {1, 3}, {1, 1}, {3, 3, 3, 4}},
      {{9, 12}, {3, 3}, {1, 1}, {1, 1}, {-1, 0, 0, -2}},
      {{4, 5, 6}, {2, 3, 2}, {1, 2, 1}, {2, 1, 1}, {1, 0, 1, 1, 2, 0}},
      {{30, 33}, {3, 3}, {1, 1}, {5, 5}, {5, 5, 5, 5}},
  };
  return all;
}
const std::vector<Channels> kChannels = {{1, 1, 3, 4}, {2, 1, 1, 1}, {2, 3, 2, 5},
                                         {2, 6, 1, 1}, {1, 4, 1, 3}, {1, 1, 40, 70}};

}  // namespace

TEST_CASE("Conv equals its definition over shapes, groups, strides, dilations and pads") {
  uint32_t seed = 1;
  for (const Geometry& g : Geometries()) {
    for (const Channels& c : kChannels) {
      const Tensor x = RandomTensor(Join({c.batch, c.groups * c.in}, g.in), ++seed);
      const Tensor w = RandomTensor(Join({c.groups * c.out, c.in}, g.kernel), ++seed);
      const Tensor bias = RandomTensor({c.groups * c.out}, ++seed);
      const Tensor y = RunOne(ConvOp(), {x, w, bias}, {AttributesOf(g, c.groups)});
      REQUIRE(y.dims() == Join({c.batch, c.groups * c.out}, OutDims(g)));
      RequireClose<float>(y, PlainConv(g, c, x, w, bias), 3e-6);
    }
  }
}

TEST_CASE("ConvTranspose is the transpose of Conv") {
  uint32_t seed = 1;
  for (const Geometry& g : Geometries()) {
    if (g.pads[0] < 0) continue;
    for (const Channels& c : kChannels) {
      const Dims small = OutDims(g);
      const Tensor x = RandomTensor(Join({c.batch, c.groups * c.in}, small), ++seed);
      const Tensor w = RandomTensor(Join({c.groups * c.in, c.out}, g.kernel), ++seed);
      const Tensor bias = RandomTensor({c.groups * c.out}, ++seed);
      AttributeList attributes = AttributesOf(g, c.groups);
      // What the strides of the Conv left over at the end.
      Ints padding;
      for (size_t i = 0; i < g.in.size(); ++i) {
        const int64_t extent = (g.kernel[i] - 1) * g.dilations[i] + 1;
        padding.push_back((g.in[i] + g.pads[i] + g.pads[g.in.size() + i] - extent) % g.strides[i]);
      }
      attributes.emplace_back("output_padding", padding);
      const Tensor y = RunOne(ConvTransposeOp(), {x, w, bias}, {attributes});
      REQUIRE(y.dims() == Join({c.batch, c.groups * c.out}, g.in));
      RequireClose<float>(y, PlainConvTranspose(g, c, x, w, bias), 3e-6);
    }
  }
}

TEST_CASE("Conv in double and in half floats") {
  const Geometry g = {{9, 11}, {3, 3}, {2, 1}, {1, 1}, {1, 1, 1, 1}};
  const Channels c = {2, 2, 3, 4};
  const Tensor x = RandomTensor({2, 6, 9, 11}, 1), w = RandomTensor({8, 3, 3, 3}, 2), bias = RandomTensor({8}, 3);
  const OpCall call = {AttributesOf(g, 2)};
  const auto expected = PlainConv(g, c, x, w, bias);
  RequireClose<double>(RunOne(ConvOp(), {CastTo<double>(x), CastTo<double>(w), CastTo<double>(bias)}, call), expected,
                       1e-14);
  RequireClose<float16>(RunOne(ConvOp(), {CastTo<float16>(x), CastTo<float16>(w), CastTo<float16>(bias)}, call),
                        expected, 3e-3);
  RequireClose<bfloat16>(RunOne(ConvOp(), {CastTo<bfloat16>(x), CastTo<bfloat16>(w), CastTo<bfloat16>(bias)}, call),
                         expected, 3e-2);
}

TEST_CASE("Conv gives the same bytes for any number of threads") {
  const OpCall same = {{{"auto_pad", std::string("SAME_UPPER")}}};
  RequireThreadsAgree(ConvOp(), {RandomTensor({2, 33, 41, 43}, 1), RandomTensor({300, 33, 3, 3}, 2)}, same);
  RequireThreadsAgree(ConvOp(), {RandomTensor({1, 64, 20, 20}, 1), RandomTensor({130, 64, 1, 1}, 2)}, same);
  RequireThreadsAgree(ConvOp(), {RandomTensor({2, 33, 41, 43}, 1), RandomTensor({33, 1, 3, 3}, 2)},
                      {{{"group", int64_t{33}}, {"strides", Ints{2, 2}}}});
  RequireThreadsAgree(ConvTransposeOp(), {RandomTensor({2, 33, 21, 23}, 1), RandomTensor({33, 90, 3, 3}, 2)});
}

TEST_CASE("auto_pad") {
  const auto window = [](const char* pad, Ints in, Ints kernel, Ints strides) {
    Attributes attributes;
    attributes.Set("auto_pad", std::string(pad));
    attributes.Set("strides", strides);
    auto w = ReadWindow(attributes, WindowKind::kConv, in, kernel);
    REQUIRE(w.ok());
    return (*w)[0];
  };
  // Total padding 3: the odd one goes to the end for SAME_UPPER, to the start for SAME_LOWER.
  REQUIRE(window("SAME_UPPER", {7}, {4}, {1}).pad_begin == 1);
  REQUIRE(window("SAME_UPPER", {7}, {4}, {1}).pad_end == 2);
  REQUIRE(window("SAME_LOWER", {7}, {4}, {1}).pad_begin == 2);
  REQUIRE(window("SAME_UPPER", {7}, {3}, {2}).out == 4);
  REQUIRE(window("SAME_UPPER", {7}, {1}, {3}).pad_begin == 0);
  REQUIRE(window("VALID", {7}, {4}, {2}).out == 2);
}

TEST_CASE("Conv refuses geometry that can't be") {
  const Tensor x = RandomTensor({1, 4, 8, 8}, 1), w = RandomTensor({6, 2, 3, 3}, 2);
  const int64_t huge = int64_t{1} << 62;
  const auto refused = [&](AttributeList attributes) {
    attributes.emplace_back("group", int64_t{2});
    RequireRefused(ConvOp(), {x, w}, {attributes});
  };
  REQUIRE(RunOp(ConvOp(), {x, w}, {{{"group", int64_t{2}}}}).ok());
  for (int64_t bad : {int64_t{0}, int64_t{-1}, huge, -huge}) {
    refused({{"strides", Ints{1, bad}}});
    refused({{"dilations", Ints{bad, 1}}});
    refused({{"kernel_shape", Ints{3, bad}}});
  }
  refused({{"strides", Ints{1}}});
  refused({{"pads", Ints{1, 1}}});
  refused({{"pads", Ints{huge, 0, huge, 0}}});
  refused({{"pads", Ints{-5, 0, -5, 0}}});
  refused({{"dilations", Ints{4, 4}}});
  refused({{"kernel_shape", Ints{3, 2}}});
  refused({{"auto_pad", std::string("SAME")}});
  for (int64_t group : {int64_t{0}, int64_t{-2}, int64_t{1}, int64_t{4}, huge})
    RequireRefused(ConvOp(), {x, w}, {{{"group", group}}});
  RequireRefused(ConvOp(), {x, RandomTensor({5, 2, 3, 3}, 2)}, {{{"group", int64_t{2}}}});
  RequireRefused(ConvOp(), {x, w, RandomTensor({5}, 1)}, {{{"group", int64_t{2}}}});
  RequireRefused(ConvOp(), {x, RandomTensor({6, 2, 3}, 2)}, {{{"group", int64_t{2}}}});
  RequireRefused(ConvOp(), {RandomTensor({1, 4}, 1), RandomTensor({6, 4}, 1)});
  RequireRefused(ConvOp(), {x, RandomTensor({6, 2, 0, 3}, 2)}, {{{"group", int64_t{2}}}});
  RequireRefused(ConvOp(), {x, CastTo<double>(w)}, {{{"group", int64_t{2}}}});
  RequireRefused(ConvOp(), {RandomTensor({1, 1, 2, 2, 2, 2}, 1), RandomTensor({1, 1, 1, 1, 1, 1}, 1)});
  RequireRefused(ConvTransposeOp(), {x, RandomTensor({4, 2, 3, 3}, 1)}, {{{"output_shape", Ints{-huge, 4}}}});
  RequireRefused(ConvTransposeOp(), {x, RandomTensor({4, 2, 3, 3}, 1)}, {{{"pads", Ints{9, 9, 9, 9}}}});
  RequireRefused(ConvTransposeOp(), {x, RandomTensor({3, 2, 3, 3}, 1)});
}

TEST_CASE("Conv of an empty batch is empty") {
  REQUIRE(RunOne(ConvOp(), {RandomTensor({0, 4, 8, 8}, 1), RandomTensor({6, 4, 3, 3}, 2)}).dims() == Dims{0, 6, 6, 6});
}

}  // namespace quant
