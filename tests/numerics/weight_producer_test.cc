// Whole weights against the plain reference, byte for byte: shapes x axes x group sizes x schemes x layouts.
#include "libquant/numerics/weight_producer.h"

#include "libquant/base/parallel.h"
#include "tests/catch.h"
#include "tests/numerics/weight_fixture.h"

namespace quant {
namespace {

constexpr CodeLayout kLayouts[] = {CodeLayout::kReductionMajor, CodeLayout::kChannelMajor, CodeLayout::kNBits};
constexpr const char* kFormats[] = {"int4", "uint4", "int8", "uint8"};

// Calls body(spec, layout) for all formats, schemes, layouts, and scale types.
template <typename Body>
void ForSpecs(Granularity granularity, int64_t group, const Body& body) {
  for (const char* name : kFormats) {
    for (const Scheme scheme : {Scheme::kSymmetric, Scheme::kAsymmetric}) {
      for (const CodeLayout layout : kLayouts) {
        for (const DType scales : {DType::kFloat, DType::kFloat16}) {
          QuantSpec spec;
          spec.format = FindFormat(name);
          spec.granularity = granularity;
          spec.group_size = group;
          spec.scheme = scheme;
          spec.scale_dtype = scales;
          spec.allow_negative_scales = (group + static_cast<int>(layout)) % 2 == 0;
          if (layout == CodeLayout::kNBits && group * spec.format->bits % 8 != 0) continue;
          body(spec, layout);
        }
      }
    }
  }
}

std::string Name(const QuantSpec& spec, CodeLayout layout) {
  return fmt::format("{} granularity {} group {} scheme {} scales {} layout {} negative {}", spec.format->name,
                     static_cast<int>(spec.granularity), spec.group_size, static_cast<int>(spec.scheme),
                     NameOf(spec.scale_dtype), static_cast<int>(layout), spec.allow_negative_scales);
}

void Sweep(const TestWeight& w, int64_t group) {
  for (const Granularity granularity : {Granularity::kGroup, Granularity::kChannel, Granularity::kTensor}) {
    ForSpecs(granularity, group, [&](const QuantSpec& spec, CodeLayout layout) {
      INFO(ToString(w.tensor.dims()) << " " << NameOf(w.tensor.dtype()) << " " << Name(spec, layout));
      CHECK(Agrees(w, spec, layout));
    });
  }
}

TEST_CASE("channels on the middle axis, as ConvTranspose has them, keep the order of the source") {
  struct Size {
    int64_t outer, n, inner;
  };
  // The last two do not fit one tile; 300 * 300 * 9 needs several a channel, 2 * 3 * 400000 splits a run.
  for (const Size s : {Size{1, 1, 1}, Size{3, 5, 4}, Size{7, 3, 9}, Size{24, 24, 4}, Size{5, 1, 3}, Size{300, 300, 9},
                       Size{2, 3, 400000}}) {
    for (const Granularity granularity : {Granularity::kChannel, Granularity::kTensor}) {
      for (const char* format : {"int4", "uint4", "int8", "uint8"}) {
        for (const Scheme scheme : {Scheme::kSymmetric, Scheme::kAsymmetric}) {
          if (s.outer * s.inner > 1000 && scheme == Scheme::kAsymmetric) continue;
          QuantSpec spec;
          spec.format = FindFormat(format);
          spec.granularity = granularity;
          spec.scheme = scheme;
          spec.allow_negative_scales = true;
          const TestWeight w = MakeRuns(s.outer, s.n, s.inner, MixedValues(s.outer * s.n * s.inner, 4));
          INFO(s.outer << "x" << s.n << "x" << s.inner << " " << format << " " << static_cast<int>(granularity));
          CHECK(Agrees(w, spec, CodeLayout::kSourceOrder));
          if (s.outer * s.inner < 1000) CHECK(Agrees(OnDisk(w), spec, CodeLayout::kSourceOrder));
        }
      }
    }
  }
}

TEST_CASE("small weights of every shape, axis and group size") {
  for (const int64_t k : {1, 2, 5, 31, 32, 33, 100}) {
    for (const int64_t n : {1, 2, 3, 16, 33}) {
      for (const bool rows : {true, false}) {
        const auto seed = static_cast<uint32_t>(k * 1000 + n * 2 + rows);
        const TestWeight w = MakeWeight(k, n, rows, MixedValues(k * n, seed));
        for (const int64_t group : {1, 2, 3, 16, 32, 128}) Sweep(w, group);
      }
    }
  }
}

TEST_CASE("weights of many tiles, odd ones among them") {
  struct Size {
    int64_t k, n, group;
  };
  for (const Size s : {Size{700, 1201, 32}, Size{1201, 700, 33}, Size{5001, 131, 6000}, Size{300001, 3, 128},
                       Size{300001, 3, 290000}, Size{3, 300001, 2}, Size{600001, 1, 7}, Size{1, 600001, 32}}) {
    for (const bool rows : {true, false}) {
      const TestWeight w = MakeWeight(s.k, s.n, rows, MixedValues(s.k * s.n, 5));
      for (const Granularity granularity : {Granularity::kGroup, Granularity::kChannel, Granularity::kTensor}) {
        for (const CodeLayout layout : kLayouts) {
          QuantSpec spec;
          spec.format = FindFormat(granularity == Granularity::kChannel ? "uint4" : "int4");
          spec.granularity = granularity;
          spec.group_size = layout == CodeLayout::kNBits ? std::min<int64_t>(s.group + s.group % 2, 65536) : s.group;
          spec.scheme = s.group % 2 == 0 && rows ? Scheme::kSymmetric : Scheme::kAsymmetric;
          spec.allow_negative_scales = true;
          INFO(ToString(w.tensor.dims()) << " " << Name(spec, layout));
          CHECK(Agrees(w, spec, layout));
        }
      }
    }
  }
}

TEST_CASE("float16 and bfloat16 weights, in memory and in files") {
  for (const DType dtype : {DType::kFloat, DType::kFloat16, DType::kBfloat16}) {
    for (const bool rows : {true, false}) {
      for (const int64_t n : {16, 33}) {
        const TestWeight w = MakeWeight(100, n, rows, MixedValues(100 * n, 3), dtype);
        Sweep(w, 32);
        Sweep(OnDisk(w), 32);
      }
      const TestWeight wide = OnDisk(MakeWeight(600, 1101, rows, MixedValues(600 * 1101, 4), dtype));
      for (const CodeLayout layout : kLayouts) {
        QuantSpec spec;
        spec.format = FindFormat("int4");
        INFO(ToString(wide.tensor.dims()) << " " << NameOf(dtype) << " " << Name(spec, layout));
        CHECK(Agrees(wide, spec, layout));
        spec.granularity = Granularity::kChannel;
        CHECK(Agrees(wide, spec, layout));
      }
    }
  }
}

TEST_CASE("a deferred source is produced first") {
  TestWeight w = MakeWeight(64, 6, true, MixedValues(64 * 6, 8));
  struct Source : TensorProducer {
    Tensor tensor;
    int output_count() const override { return 1; }
    Status Produce(std::span<ByteSink* const> sinks) const override { return tensor.CopyTo(*sinks[0]); }
  };
  auto source = std::make_shared<Source>();
  source->tensor = w.tensor;
  w.tensor = Tensor::FromProducer(DType::kFloat, w.tensor.dims(), {source, 0});
  QuantSpec spec;
  spec.format = FindFormat("int4");
  CHECK(Agrees(w, spec, CodeLayout::kReductionMajor));
}

TEST_CASE("the same bytes for 1, 2 and 8 threads, and again from the same producer") {
  for (const bool rows : {true, false}) {
    const TestWeight w = MakeWeight(1025, 1027, rows, MixedValues(1025 * 1027, 9));
    for (const CodeLayout layout : kLayouts) {
      for (const Granularity granularity : {Granularity::kGroup, Granularity::kChannel, Granularity::kTensor}) {
        QuantSpec spec;
        spec.format = FindFormat("int4");
        spec.granularity = granularity;
        spec.scheme = Scheme::kAsymmetric;
        const auto q = QuantizeWeight("w", w.tensor, w.view, spec, layout).value();
        SetThreads(1);
        const Produced one = Produce(q);
        REQUIRE(one.status.ok());
        for (const int threads : {2, 8}) {
          SetThreads(threads);
          const Produced many = Produce(q);
          REQUIRE(many.status.ok());
          CHECK(many.whole);
          CHECK(many.outputs.codes == one.outputs.codes);
          CHECK(many.outputs.scales == one.outputs.scales);
          CHECK(many.outputs.zero_points == one.outputs.zero_points);
        }
        SetThreads(0);
      }
    }
  }
}

TEST_CASE("dims and types of the outputs") {
  const TestWeight w = MakeWeight(70, 5, true, MixedValues(350, 1));
  QuantSpec spec;
  spec.format = FindFormat("int4");
  const auto make = [&](CodeLayout layout) { return QuantizeWeight("w", w.tensor, w.view, spec, layout).value(); };
  QuantizedWeight q = make(CodeLayout::kReductionMajor);
  CHECK(Describe(q.codes) == "int4[70x5]");
  CHECK(Describe(q.scales) == "float32[3x5]");
  CHECK(!q.zero_points);
  q = make(CodeLayout::kChannelMajor);
  CHECK(Describe(q.codes) == "int4[5x70]");
  CHECK(Describe(q.scales) == "float32[5x3]");
  q = make(CodeLayout::kNBits);
  CHECK(Describe(q.codes) == "uint8[5x3x16]");
  CHECK(Describe(q.scales) == "float32[5x3]");
  CHECK(!q.zero_points);
  spec.scheme = Scheme::kAsymmetric;
  spec.scale_dtype = DType::kFloat16;
  q = make(CodeLayout::kReductionMajor);
  CHECK(Describe(q.codes) == "uint4[70x5]");
  CHECK(Describe(*q.zero_points) == "uint4[3x5]");
  CHECK(Describe(q.scales) == "float16[3x5]");
  CHECK(q.bits == (175 + 30 + 8) * 8);
  q = make(CodeLayout::kNBits);
  CHECK(Describe(*q.zero_points) == "uint8[5x2]");
  spec.granularity = Granularity::kChannel;
  q = make(CodeLayout::kReductionMajor);
  CHECK(Describe(q.scales) == "float16[5]");
  CHECK(Describe(*q.zero_points) == "uint4[5]");
  CHECK(Describe(make(CodeLayout::kNBits).scales) == "float16[5x3]");
  spec.granularity = Granularity::kTensor;
  q = make(CodeLayout::kChannelMajor);
  CHECK(q.scales.rank() == 0);
  CHECK(q.zero_points->rank() == 0);
  spec.scheme = Scheme::kSymmetric;
  spec.format = FindFormat("uint8");
  q = make(CodeLayout::kReductionMajor);
  CHECK(Describe(q.codes) == "uint8[70x5]");
  CHECK(q.zero_points->dtype() == DType::kUint8);
  CHECK(!make(CodeLayout::kNBits).zero_points);
}

TEST_CASE("an empty weight has empty outputs, and a scale where there is one for all") {
  for (const Dims& dims : {Dims{0, 4}, Dims{4, 0}}) {
    const Tensor t = Tensor::Allocate(DType::kFloat, dims);
    for (const Granularity granularity : {Granularity::kGroup, Granularity::kChannel, Granularity::kTensor}) {
      for (const CodeLayout layout : kLayouts) {
        QuantSpec spec;
        spec.format = FindFormat("uint8");
        spec.granularity = granularity;
        if (granularity == Granularity::kChannel && dims[0] == 0) continue;
        const auto q = QuantizeWeight("w", t, {dims[1], dims[0], 1, dims[1]}, spec, layout);
        REQUIRE(q.ok());
        const Produced p = Produce(*q);
        INFO(Name(spec, layout) << " " << ToString(dims));
        CHECK(p.status.ok());
        CHECK(p.whole);
      }
    }
  }
}

}  // namespace
}  // namespace quant
