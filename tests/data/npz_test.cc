#include <zip.h>

#include <cmath>

#include "libquant/data/npy.h"
#include "tests/catch.h"
#include "tests/data/data_fixture.h"

namespace quant {
namespace {

NamedTensors MustRead(const std::string& path) {
  auto arrays = ReadNpz(path);
  INFO(arrays.status());
  REQUIRE(arrays.ok());
  return *arrays;
}

std::string ErrorOf(const std::string& path) {
  const auto arrays = ReadNpz(path);
  REQUIRE(!arrays.ok());
  CHECK(ExitCode(arrays.status()) == 3);
  return Message(arrays.status());
}

void MustWrite(const std::string& path, const NamedTensors& arrays) {
  const Status status = WriteNpz(path, arrays);
  INFO(status);
  REQUIRE(status.ok());
}

TEST_CASE("archives that NumPy wrote") {
  const NamedTensors stored = MustRead(Testdata("stored.npz"));
  REQUIRE(stored.size() == 3);
  CHECK(stored[1].first == "ids/0:a");
  CHECK(ValuesOf<int64_t>(stored[1].second) == std::vector<int64_t>{0, 1, 2});
  CHECK(Describe(*FindTensor(stored, "half")) == "float16[3x4]");
  const NamedTensors deflated = MustRead(Testdata("deflated.npz"));
  REQUIRE(deflated.size() == 2);
  CHECK(Describe(deflated[0].second) == "float32[64x32]");
  CHECK(deflated[1].second.data<int64_t>()[63] == 63);
  CHECK(Describe(MustRead(Testdata("streamed.npz"))[0].second) == "float32[3x4]");
}

TEST_CASE("what is written reads back, and is the same bytes each time") {
  TempFolder folder;
  NamedTensors arrays = {{"x", Make<float>({2, 2}, {1, -2, INFINITY, 0.5f})},
                         {"a/b:0 \"{\xC3\xA4}\"", Make<int64_t>({3}, {-1, 0, int64_t{1} << 62})},
                         {"", Tensor::Scalar(int8_t{-7})},
                         {"none", Make<double>({0, 4}, {})},
                         {"c", Tensor::Allocate(DType::kComplex64, {1})},
                         {"flag", Make<uint8_t>({2}, {0, 1})}};
  std::memset(arrays[4].second.mutable_bytes().data(), 0, 8);
  MustWrite(folder / "a.npz", arrays);
  MustWrite(folder / "b.npz", arrays);
  const std::string bytes = ReadBytes(folder / "a.npz");
  CHECK(bytes == ReadBytes(folder / "b.npz"));
  CHECK(bytes.substr(10, 4) == std::string("\0\0\x21\0", 4));  // midnight, 1980-01-01, whatever the clock says
  const NamedTensors back = MustRead(folder / "a.npz");
  REQUIRE(back.size() == arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    CHECK(back[i].first == arrays[i].first);
    CHECK(Describe(back[i].second) == Describe(arrays[i].second));
    const auto got = back[i].second.bytes();
    const auto want = arrays[i].second.bytes();
    CHECK(std::equal(got.begin(), got.end(), want.begin(), want.end()));
  }
}

TEST_CASE("types that NumPy lacks are widened") {
  TempFolder folder;
  Tensor int4 = Tensor::Allocate(DType::kInt4, {3});
  int4.mutable_bytes()[0] = std::byte{0x7F};
  int4.mutable_bytes()[1] = std::byte{0x08};
  Tensor uint4 = Tensor::Allocate(DType::kUint4, {3});
  uint4.mutable_bytes()[0] = std::byte{0x7F};
  uint4.mutable_bytes()[1] = std::byte{0x08};
  Tensor int2 = Tensor::Allocate(DType::kInt2, {4});
  int2.mutable_bytes()[0] = std::byte{0xB4};  // 0, 1, -1, -2
  MustWrite(folder / "a.npz", {{"b", Make<bfloat16>({1}, {bfloat16(1.5f)})}, {"i", int4}, {"u", uint4}, {"t", int2}});
  const NamedTensors back = MustRead(folder / "a.npz");
  CHECK(ValuesOf<float>(back[0].second) == std::vector<float>{1.5f});
  CHECK(ValuesOf<int8_t>(back[1].second) == std::vector<int8_t>{-1, 7, -8});
  CHECK(ValuesOf<uint8_t>(back[2].second) == std::vector<uint8_t>{15, 7, 8});
  CHECK(ValuesOf<int8_t>(back[3].second) == std::vector<int8_t>{0, 1, -1, -2});
  const Status status = WriteNpz(folder / "b.npz", {{"f", Tensor::Allocate(DType::kFloat8E5M2, {1})}});
  CHECK(ExitCode(status) == 4);
  CHECK(!std::filesystem::exists(folder / "b.npz"));
}

TEST_CASE("an archive of nothing") {
  TempFolder folder;
  MustWrite(folder / "none.npz", {});
  CHECK(MustRead(folder / "none.npz").empty());
}

TEST_CASE("a target that can't be written leaves nothing") {
  TempFolder folder;
  CHECK(ExitCode(WriteNpz(folder / "no_such_folder/a.npz", {{"x", Tensor::Scalar(1.0f)}})) == 5);
  MustWrite(folder / "a.npz", {{"x", Tensor::Scalar(1.0f)}});
  const std::string before = ReadBytes(folder / "a.npz");
  CHECK(!WriteNpz(folder / "a.npz", {{"\xFF\xFE", Tensor::Scalar(1.0f)}}).ok());  // no UTF-8
  CHECK(ReadBytes(folder / "a.npz") == before);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("files that are no archive") {
  TempFolder folder;
  CHECK(ErrorOf(folder / "missing.npz").find("cannot open") != std::string::npos);
  CHECK(ErrorOf(folder.Write("empty.npz", "")).find("is empty (0 bytes)") != std::string::npos);
  CHECK(ErrorOf(folder.Write("noise.npz", std::string(4096, 'n'))).find("can't be read as an .npz") !=
        std::string::npos);
  CHECK(ErrorOf(folder.path()).find("a folder") != std::string::npos);
  CHECK(ErrorOf(Testdata("grid.npy")).find("can't be read as an .npz") != std::string::npos);
}

// Every truncation and every changed byte: an error or the same arrays, never anything else.
TEST_CASE("damaged archives") {
  TempFolder folder;
  for (const char* name : {"stored.npz", "deflated.npz", "streamed.npz"}) {
    const std::string whole = ReadBytes(Testdata(name));
    const NamedTensors good = MustRead(Testdata(name));
    for (size_t length = 0; length < whole.size(); ++length) ErrorOf(folder.Write("cut.npz", whole.substr(0, length)));
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
      const auto arrays = ReadNpz(folder.Write("flip.npz", bytes));
      if (!arrays.ok()) {
        CHECK(ExitCode(arrays.status()) == 3);
        continue;
      }
      for (const auto& [key, tensor] : *arrays) {
        const Tensor* same = FindTensor(good, key);  // a byte of the name may be the one
        if (same == nullptr) continue;
        CHECK(Describe(tensor) == Describe(*same));
        CHECK(std::equal(tensor.bytes().begin(), tensor.bytes().end(), same->bytes().begin(), same->bytes().end()));
      }
    }
  }
}

TEST_CASE("a member that claims more than deflate can hold is refused before it is unpacked") {
  TempFolder folder;
  const std::string whole = ReadBytes(Testdata("deflated.npz"));
  // Uncompressed size of the first member, in its central directory record.
  const size_t record = whole.find("PK\x01\x02");
  REQUIRE(record != std::string::npos);
  std::string bytes = whole;
  bytes.replace(record + 24, 4, "\xF0\xFF\xFF\x7F");
  CHECK(ErrorOf(folder.Write("bomb.npz", bytes)).find("claims 2147483632 bytes") != std::string::npos);
}

TEST_CASE("members that are no .npy, or there twice") {
  TempFolder folder;
  const auto zip_of = [&](const std::vector<std::string>& names) {
    const std::string path = folder / "made.npz";
    std::filesystem::remove(path);
    int error = 0;
    zip_t* zip = zip_open(path.c_str(), ZIP_CREATE, &error);
    const std::string array = ReadBytes(Testdata("grid.npy"));
    for (const std::string& name : names) {
      zip_file_add(zip, name.c_str(), zip_source_buffer(zip, array.data(), array.size(), 0), 0);
    }
    zip_close(zip);
    return path;
  };
  CHECK(ErrorOf(zip_of({"x.npy", "readme.txt"})).find("readme.txt in ") != std::string::npos);
  CHECK(ErrorOf(zip_of({"folder/"})).find("is no .npy") != std::string::npos);
  const std::string path = zip_of({"x.npy", "y.npy"});
  std::string bytes = ReadBytes(path);
  for (size_t at = bytes.find("y.npy"); at != std::string::npos; at = bytes.find("y.npy", at)) bytes[at] = 'x';
  CHECK(ErrorOf(folder.Write("twice.npz", bytes)).find("is there twice") != std::string::npos);
}

}  // namespace
}  // namespace quant
