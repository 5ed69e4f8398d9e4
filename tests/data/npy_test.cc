#include "libquant/data/npy.h"

#include "libquant/data/npy_header.h"
#include "tests/catch.h"
#include "tests/data/data_fixture.h"

namespace quant {
namespace {

const std::vector<float> kGrid = {0, 0.25f, 0.5f, 0.75f, 1, 1.25f, 1.5f, 1.75f, 2, 2.25f, 2.5f, 2.75f};

Tensor MustRead(const std::string& name) {
  auto tensor = ReadNpy(Testdata(name));
  INFO(tensor.status());
  REQUIRE(tensor.ok());
  return *tensor;
}

std::string ErrorOf(const std::string& bytes) {
  const auto tensor = ParseNpy("it", std::as_bytes(std::span(bytes)));
  REQUIRE(!tensor.ok());
  CHECK(ExitCode(tensor.status()) == 3);
  return Message(tensor.status());
}

std::string Npy(const std::string& dictionary, const std::string& payload = "", char version = 1) {
  std::string out = "\x93NUMPY";
  out += version;
  out += '\0';
  out += static_cast<char>(dictionary.size() & 0xFF);
  out += static_cast<char>(dictionary.size() >> 8);
  if (version > 1) out += std::string(2, '\0');
  return out + dictionary + payload;
}

TEST_CASE("files that NumPy wrote") {
  for (const char* name : {"grid.npy", "grid_fortran.npy", "version2.npy"}) {
    INFO(name);
    const Tensor t = MustRead(name);
    CHECK(Describe(t) == "float32[3x4]");
    CHECK(ValuesOf<float>(t) == kGrid);
  }
  const Tensor cube = MustRead("cube_fortran_i16.npy");
  CHECK(Describe(cube) == "int16[2x3x4]");
  for (size_t i = 0; i < 24; ++i) CHECK(cube.data<int16_t>()[i] == static_cast<int16_t>(i));
  CHECK(Describe(MustRead("scalar.npy")) == "float64[scalar]");
  CHECK(MustRead("scalar.npy").data<double>()[0] == 2.5);
  CHECK(Describe(MustRead("empty.npy")) == "uint8[0x3]");
  CHECK(ValuesOf<uint8_t>(Tensor(MustRead("flags.npy"))) == std::vector<uint8_t>{1, 0, 1});
}

TEST_CASE("what NumPy can write and we don't read says why") {
  const auto error = [](const std::string& name) {
    const auto tensor = ReadNpy(Testdata(name));
    REQUIRE(!tensor.ok());
    CHECK(ExitCode(tensor.status()) == 3);
    return Message(tensor.status());
  };
  CHECK(error("big_endian.npy").find("big-endian numbers ('>f4'); save it as little-endian, with .astype('<f4')") !=
        std::string::npos);
  CHECK(error("text.npy").find("elements of type '<U2'") != std::string::npos);
  CHECK(error("records.npy").find("records") != std::string::npos);
}

TEST_CASE("the dictionary may be spelt otherwise") {
  for (const char* text : {"{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }",
                           "{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"<i2\"}\n",
                           " { 'fortran_order' :False , 'descr' : '<i2','shape': ( 2 , ) } "}) {
    INFO(text);
    const std::string bytes = Npy(text, std::string("\x01\0\xFF\xFF", 4));
    const auto tensor = ParseNpy("it", std::as_bytes(std::span(bytes)));
    INFO(tensor.status());
    REQUIRE(tensor.ok());
    CHECK(ValuesOf<int16_t>(*tensor) == std::vector<int16_t>{1, -1});
  }
}

TEST_CASE("any byte but 0 is true") {
  const std::string bytes =
      Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\x02\0\xFF", 3));
  const auto tensor = ParseNpy("it", std::as_bytes(std::span(bytes)));
  REQUIRE(tensor.ok());
  CHECK(ValuesOf<uint8_t>(*tensor) == std::vector<uint8_t>{1, 0, 1});
}

TEST_CASE("every truncation of a file is an error") {
  const std::string whole = ReadBytes(Testdata("grid.npy"));
  for (size_t length = 0; length < whole.size(); ++length) ErrorOf(whole.substr(0, length));
  CHECK(ErrorOf(whole + "x").find("takes 48 bytes; it holds 49") != std::string::npos);
}

TEST_CASE("hostile headers") {
  const std::string ok = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  CHECK(ErrorOf("PK\x03\x04") == "it is no .npy file: it does not start as one");
  CHECK(ErrorOf("") == "it is no .npy file: it does not start as one");
  CHECK(ErrorOf(Npy(ok + "(3,), }", std::string(12, 'x'), 9)).find("version 9") != std::string::npos);
  CHECK(ErrorOf(Npy(ok + "(9223372036854775807, 9223372036854775807), }")).find("more than there can be") !=
        std::string::npos);
  CHECK(ErrorOf(Npy(ok + "(4611686018427387904,), }")).find("more than there can be") != std::string::npos);
  CHECK(ErrorOf(Npy(ok + "(0, 9223372036854775807, 9223372036854775807), }", "x")).find("more than there can be") !=
        std::string::npos);
  CHECK(ErrorOf(Npy(ok + "(1000000000000,), }")).find("takes 4000000000000 bytes; it holds 0") != std::string::npos);
  for (const char* bad : {"(-1,), }", "(3), }", "(99999999999999999999,), }", "3, }", "(3,", "(3,)", "(3,) }x",
                          "(1.5,), }", "(,), }", "(3,), 'shape': (3,), }", "(3,), 'more': 1, }"}) {
    INFO(bad);
    CHECK(ErrorOf(Npy(ok + bad, std::string(12, 'x'))) == "it has no sound .npy header");
  }
  std::string ranks = "(";
  for (int i = 0; i < 65; ++i) ranks += "1,";
  CHECK(ErrorOf(Npy(ok + ranks + "), }", "xxxx")) == "it has no sound .npy header");
  for (const char* bad :
       {"", "{}", "{'descr': '<f4'}", "{'descr': '', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "{'descr': <f4, }", "{'descr", "['descr']"}) {
    INFO(bad);
    CHECK(ErrorOf(Npy(bad, "xxxx")) == "it has no sound .npy header");
  }
  // A header longer than the file, and one that claims 4 GiB.
  CHECK(ErrorOf(std::string("\x93NUMPY\x01\0\xFF\xFF{}", 12)).find("cut off") != std::string::npos);
  CHECK(ErrorOf(std::string("\x93NUMPY\x02\0\xFF\xFF\xFF\xFF", 12)).find("header of 4294967295 bytes") !=
        std::string::npos);
}

TEST_CASE("headers we write are NumPy's, byte for byte") {
  const auto same = [](DType dtype, const Dims& dims, const std::string& file) {
    const std::string header = NpyHeaderFor(dtype, dims);
    CHECK(header.size() % 64 == 0);
    CHECK(ReadBytes(Testdata(file)).substr(0, header.size()) == header);
  };
  same(DType::kFloat, {3, 4}, "grid.npy");
  same(DType::kDouble, {}, "scalar.npy");
  same(DType::kUint8, {0, 3}, "empty.npy");
  same(DType::kBool, {3}, "flags.npy");
}

}  // namespace
}  // namespace quant
