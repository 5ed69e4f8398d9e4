#include "libquant/data/samples.h"

#include <cstring>

#include "libquant/data/npy.h"
#include "libquant/data/npy_header.h"
#include "tests/catch.h"
#include "tests/data/data_fixture.h"

namespace quant {
namespace {

const Dim kBatch{-1, "batch"};
Dim Fixed(int64_t n) { return {n, {}}; }

InputSpec Spec(const std::string& name, DType dtype, Shape shape) { return {name, dtype, std::move(shape), 0}; }

// Stands in for ONNX's tensor files: a .npy with the name, "=", in front.
StatusOr<std::pair<std::string, Tensor>> FakeTensorFile(const std::string& path, FileSlot) {
  const std::string bytes = ReadBytes(path);
  const size_t split = bytes.find('=');
  if (split == std::string::npos) return DataError("{} is no tensor", path);
  ASSIGN_OR_RETURN(Tensor t, ParseNpy(path, std::as_bytes(std::span(bytes)).subspan(split + 1)));
  return std::pair(bytes.substr(0, split), t);
}
void WriteTensorFile(const std::string& path, const std::string& name, const Tensor& t) {
  std::ofstream out(path, std::ios::binary);
  out << name << "=" << NpyHeaderFor(t.dtype(), t.dims());
  out.write(reinterpret_cast<const char*>(t.bytes().data()), static_cast<std::streamsize>(t.bytes().size()));
}

std::unique_ptr<SampleSource> MustOpen(const std::string& path, std::vector<InputSpec> inputs) {
  auto source = OpenSamples(path, std::move(inputs), FakeTensorFile);
  INFO(source.status());
  REQUIRE(source.ok());
  return std::move(source).value();
}
NamedTensors MustLoad(SampleSource& source, int64_t i) {
  auto sample = source.Load(i);
  INFO(sample.status());
  REQUIRE(sample.ok());
  return *sample;
}
std::string OpenError(const std::string& path, std::vector<InputSpec> inputs) {
  const auto source = OpenSamples(path, std::move(inputs), FakeTensorFile);
  REQUIRE(!source.ok());
  CHECK(ExitCode(source.status()) == 3);
  return Message(source.status());
}
std::string LoadError(SampleSource& source, int64_t i = 0) {
  const auto sample = source.Load(i);
  REQUIRE(!sample.ok());
  CHECK(ExitCode(sample.status()) == 3);
  return Message(sample.status());
}

TEST_CASE("an array longer than the model's leading dim is that many samples") {
  TempFolder folder;
  const std::string path = folder / "s.npz";
  REQUIRE(WriteNpz(path, {{"labels", Make<int64_t>({3}, {7, 8, 9})},
                          {"y", Make<int64_t>({1, 2}, {5, 6})},
                          {"x", Make<float>({3, 2}, {0, 1, 2, 3, 4, 5})}})
              .ok());
  for (const Dim& lead : {kBatch, Fixed(1), Dim{}}) {
    auto source = MustOpen(path, {Spec("x", DType::kFloat, {lead, Fixed(2)}), Spec("y", DType::kInt64, {lead, Dim{}})});
    REQUIRE(source->count() == 3);
    for (int64_t i : {0, 1, 2, 1, 0, 2}) {  // going back included
      const NamedTensors s = MustLoad(*source, i);
      REQUIRE(s.size() == 2);
      CHECK(s[0].first == "x");
      CHECK(Describe(s[0].second) == "float32[1x2]");
      CHECK(ValuesOf<float>(s[0].second) ==
            std::vector<float>{static_cast<float>(2 * i), static_cast<float>(2 * i + 1)});
      CHECK(ValuesOf<int64_t>(s[1].second) == std::vector<int64_t>{5, 6});  // goes with every sample
    }
    CHECK(source->LoadExpected(0)->empty());
  }
}

TEST_CASE("deflated archives stream too") {
  auto source = MustOpen(Testdata("deflated.npz"),
                         {Spec("y", DType::kInt64, {kBatch}), Spec("x", DType::kFloat, {kBatch, Fixed(32)})});
  REQUIRE(source->count() == 64);
  for (int64_t i : {0, 5, 63, 2}) CHECK(ValuesOf<int64_t>(MustLoad(*source, i)[0].second) == std::vector<int64_t>{i});
}

TEST_CASE("an array of the model's own dims is one sample") {
  TempFolder folder;
  const std::string path = folder / "s.npz";
  REQUIRE(WriteNpz(path, {{"x", Make<float>({3, 2}, {0, 1, 2, 3, 4, 5})}}).ok());
  CHECK(MustOpen(path, {Spec("x", DType::kFloat, {Fixed(3), Fixed(2)})})->count() == 1);
  InputSpec unknown{"x", DType::kFloat, std::nullopt, 0};
  CHECK(MustOpen(path, {unknown})->count() == 1);
}

TEST_CASE("rows whose batch lies on another axis of another input are one sample") {
  TempFolder folder;
  const std::string path = folder / "s.npz";
  const std::vector<float> zeros(12);
  REQUIRE(WriteNpz(path, {{"x", Make<float>({3, 2}, {0, 1, 2, 3, 4, 5})}, {"s", Make<float>({2, 3, 2}, zeros)}}).ok());
  const auto count = [&](Shape x, Shape s) {
    return MustOpen(path, {Spec("x", DType::kFloat, std::move(x)), Spec("s", DType::kFloat, std::move(s))})->count();
  };
  const Dim any, other{-1, "other"};
  for (const auto& [lead, inner] : {std::pair(kBatch, kBatch), {any, any}, {kBatch, any}, {any, kBatch}}) {
    CHECK(count({lead, Fixed(2)}, {Fixed(2), inner, Fixed(2)}) == 1);
  }
  auto whole =
      MustOpen(path, {Spec("x", DType::kFloat, {any, Fixed(2)}), Spec("s", DType::kFloat, {Fixed(2), any, any})});
  CHECK(Describe(MustLoad(*whole, 0)[0].second) == "float32[3x2]");
  CHECK(count({kBatch, Fixed(2)}, {Fixed(2), other, Fixed(2)}) == 3);     // a name of its own
  CHECK(count({kBatch, Fixed(2)}, {Fixed(2), Fixed(3), Fixed(2)}) == 3);  // the same for every sample
  CHECK(count({Fixed(1), Fixed(2)}, {Fixed(2), any, Fixed(2)}) == 3);     // x can't be taken whole

  // A batch of its own is on the first axis: the other that happens to be as long is another thing.
  const std::string tokens = folder / "t.npz";
  REQUIRE(
      WriteNpz(tokens, {{"x", Make<float>({3, 2}, {0, 1, 2, 3, 4, 5})}, {"m", Make<float>({1, 3}, {0, 1, 2})}}).ok());
  const InputSpec x = Spec("x", DType::kFloat, {any, Fixed(2)});
  CHECK(MustOpen(tokens, {x, Spec("m", DType::kFloat, {any, any})})->count() == 3);
  CHECK(MustOpen(tokens, {x, Spec("m", DType::kFloat, {Fixed(1), any})})->count() == 1);
}

TEST_CASE("what does not fit says what was wanted and found") {
  TempFolder folder;
  const std::string path = folder / "s.npz";
  REQUIRE(WriteNpz(path, {{"x", Make<float>({3, 2}, {0, 1, 2, 3, 4, 5})}, {"n", Make<int64_t>({2, 1}, {1, 2})}}).ok());
  const InputSpec n = Spec("n", DType::kInt64, {kBatch, Dim{}});
  CHECK(OpenError(path, {Spec("X", DType::kFloat, {kBatch, Fixed(2)}), n}) ==
        path + " holds x, n; the model wants X float32[batch x 2], n int64[batch x ?]");
  CHECK(OpenError(path, {n}) == path + " holds x, n; the model wants n int64[batch x ?]");
  CHECK(OpenError(path, {Spec("x", DType::kDouble, {kBatch, Fixed(2)}), n}) ==
        "x.npy in " + path + " is float32[3x2]; input x wants float64[batch x 2]");
  CHECK(OpenError(path, {Spec("x", DType::kFloat, {kBatch, Fixed(4)}), n}) ==
        "x.npy in " + path + " is float32[3x2]; input x wants float32[batch x 4]");
  CHECK(OpenError(path, {Spec("x", DType::kFloat, {Fixed(5), Fixed(2)}), n}).find("wants float32[5 x 2]") !=
        std::string::npos);
  CHECK(OpenError(path, {Spec("x", DType::kFloat, {kBatch, Fixed(1), Fixed(2)}), n})
            .find("wants float32[batch x 1 x 2]") != std::string::npos);
  CHECK(OpenError(path, {Spec("x", DType::kFloat, {kBatch, Fixed(2)}), n}) == path + ": 3 samples of x but 2 of n");
  CHECK(OpenError(folder.Write("a.txt", "hello"), {n}).find("neither .npz nor .npy") != std::string::npos);
  CHECK(OpenError(folder.Write("b.npz", ""), {n}).find("0 bytes") != std::string::npos);
  CHECK(OpenError(folder / "none", {n}).find("cannot open") != std::string::npos);
}

TEST_CASE("one .npy feeds a model of one input") {
  auto source = MustOpen(Testdata("grid_fortran.npy"), {Spec("anything", DType::kFloat, {kBatch, Fixed(4)})});
  REQUIRE(source->count() == 3);
  CHECK(ValuesOf<float>(MustLoad(*source, 1)[0].second) == std::vector<float>{1, 1.25f, 1.5f, 1.75f});
  const InputSpec x = Spec("x", DType::kFloat, {kBatch, Fixed(4)});
  CHECK(OpenError(Testdata("grid.npy"), {x, x}).find("the model has 2 inputs") != std::string::npos);
}

TEST_CASE("a folder of .npy is one archive, a folder of .npz one sample each") {
  TempFolder folder;
  const std::string arrays = folder.MakeFolder("arrays");
  REQUIRE(WriteNpy(arrays + "/x.npy", Make<float>({2, 1}, {1, 2})).ok());
  REQUIRE(WriteNpy(arrays + "/label.npy", Make<int64_t>({2}, {0, 1})).ok());
  std::ofstream(arrays + "/README.md") << "about";
  const std::vector<InputSpec> inputs = {Spec("x", DType::kFloat, {kBatch, Fixed(1)})};
  CHECK(MustOpen(arrays, inputs)->count() == 2);

  const std::string archives = folder.MakeFolder("archives");
  REQUIRE(WriteNpz(archives + "/b.npz", {{"x", Make<float>({2, 1}, {3, 4})}}).ok());
  REQUIRE(WriteNpz(archives + "/a.npz", {{"x", Make<float>({1, 1}, {1})}}).ok());
  auto source = MustOpen(archives, inputs);
  REQUIRE(source->count() == 2);
  CHECK(ValuesOf<float>(MustLoad(*source, 0)[0].second) == std::vector<float>{1});
  CHECK(ValuesOf<float>(MustLoad(*source, 1)[0].second) == std::vector<float>{3, 4});
  auto strict = MustOpen(archives, {Spec("x", DType::kFloat, {Fixed(1), Fixed(1)})});
  CHECK(LoadError(*strict, 1).find("has 2 rows; in a folder each archive is one sample") != std::string::npos);

  REQUIRE(WriteNpy(archives + "/x.npy", Make<float>({1, 1}, {1})).ok());
  CHECK(OpenError(archives, inputs).find("both .npz and .npy") != std::string::npos);
  CHECK(OpenError(folder.MakeFolder("nothing"), inputs).find("holds no samples") != std::string::npos);
}

TEST_CASE("test_data_set folders: by number, inputs by name or by position, outputs kept") {
  TempFolder folder;
  for (const int set : {0, 2, 10}) {
    const std::string at = folder.MakeFolder("test_data_set_" + std::to_string(set));
    const auto value = static_cast<float>(set);
    // Set 2 leaves the names out.
    WriteTensorFile(at + "/input_1.pb", set == 2 ? "" : "a", Make<float>({1}, {value}));
    WriteTensorFile(at + "/input_0.pb", set == 2 ? "" : "b", Make<float>({1}, {value + 0.5f}));
    WriteTensorFile(at + "/output_0.pb", "y", Make<float>({1}, {-value}));
  }
  const std::vector<InputSpec> inputs = {Spec("a", DType::kFloat, {Fixed(1)}), Spec("b", DType::kFloat, {Fixed(1)})};
  auto source = MustOpen(folder.path(), inputs);
  REQUIRE(source->count() == 3);
  CHECK(MustLoad(*source, 0)[0].second.data<float>()[0] == 0);
  CHECK(MustLoad(*source, 2)[0].second.data<float>()[0] == 10);
  CHECK(MustLoad(*source, 2)[1].second.data<float>()[0] == 10.5f);
  CHECK(MustLoad(*source, 1)[0].second.data<float>()[0] == 2.5f);  // input_0 by position is a
  const auto expected = source->LoadExpected(2);
  REQUIRE(expected.ok());
  REQUIRE(expected->size() == 1);
  CHECK((*expected)[0].first == "y");
  CHECK((*expected)[0].second.data<float>()[0] == -10);
  CHECK(MustOpen(folder / "test_data_set_2", inputs)->count() == 1);

  auto fewer = MustOpen(folder.path(), {inputs[0]});
  CHECK(LoadError(*fewer).find("holds b, a; the model wants a float32[1]") != std::string::npos);
  auto other = MustOpen(folder.path(), {inputs[0], Spec("b", DType::kInt64, {Fixed(1)})});
  CHECK(LoadError(*other).find("is float32[1]; input b wants int64[1]") != std::string::npos);
  folder.Write("test_data_set_0/input_0.pb", "noise");
  CHECK(LoadError(*source).find("is no tensor") != std::string::npos);
}

TEST_CASE("labels are a row of integers, as an array or as text, or floats") {
  TempFolder folder;
  REQUIRE(WriteNpy(folder / "l.npy", Make<uint8_t>({3}, {0, 255, 7})).ok());
  CHECK(ReadLabels(folder / "l.npy")->classes == std::vector<int64_t>{0, 255, 7});
  CHECK(ReadLabels(folder.Write("l.txt", "3\r\n-1\n12 \n\n"))->classes == std::vector<int64_t>{3, -1, 12});
  CHECK(ReadLabels(folder.Write("l2.txt", "3\n4"))->classes == std::vector<int64_t>{3, 4});
  const auto error = [](const std::string& path) {
    const auto labels = ReadLabels(path);
    REQUIRE(!labels.ok());
    CHECK(ExitCode(labels.status()) == 3);
    return Message(labels.status());
  };
  CHECK(error(folder.Write("bad.txt", "3\ncat\n")).find("bad.txt, line 2: 'cat' is no integer") != std::string::npos);
  CHECK(error(folder.Write("gap.txt", "3\n\n4\n")).find("line 2: '' is no integer") != std::string::npos);
  CHECK(error(folder.Write("big.txt", "99999999999999999999\n")).find("line 1") != std::string::npos);
  CHECK(error(folder.Write("none.txt", "")).find("0 bytes") != std::string::npos);
  REQUIRE(WriteNpy(folder / "i.npy", Make<int64_t>({1, 2}, {1, 2})).ok());
  CHECK(error(folder / "i.npy").find("int64[1x2]; labels are one row of integers") != std::string::npos);
  REQUIRE(WriteNpy(folder / "b.npy", Tensor::Allocate(DType::kBool, {1})).ok());
  CHECK(error(folder / "b.npy").find("labels are integers") != std::string::npos);
  REQUIRE(ReadLabels(Testdata("grid.npy")).ok());
  CHECK(ReadLabels(Testdata("grid.npy"))->numbers->dims() == Dims{3, 4});
  REQUIRE(WriteNpy(folder / "u.npy", Make<uint64_t>({1}, {~uint64_t{0}})).ok());
  CHECK(error(folder / "u.npy").find("18446744073709551615") != std::string::npos);
}

}  // namespace
}  // namespace quant
