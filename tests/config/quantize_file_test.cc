#include "libquant/config/quantize_file.h"

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"

namespace quant {
namespace {

using Words = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

QuantizeOptions Read(const std::string& text, QuantizeOptions options = {}) {
  const Status status = ReadQuantizeText(text, "f.yaml", options);
  INFO(Message(status));
  REQUIRE(status.ok());
  return options;
}

std::string ErrorOf(const std::string& text) {
  QuantizeOptions options;
  const Status status = ReadQuantizeText(text, "f.yaml", options);
  INFO(text);
  REQUIRE(!status.ok());
  CHECK(ExitCode(status) == 2);
  return Message(status);
}

TEST_CASE("every key of a file sets its option") {
  const QuantizeOptions o = Read(R"(
weights: int8
group-size: 64
scheme: asymmetric
scale-type: fp16
emit: nbits
keep: fp16
accuracy-level: 2
clamp-non-finite: true
target: onnxruntime-cpu
skip: [lm_head, 'a|b']
skip-op: [Conv]
only:
  - layers
  - "mlp"
include-op: LSTM
)");
  CHECK(o.format.weights == "int8");
  CHECK(o.format.granularity == Granularity::kGroup);
  CHECK(o.format.group_size == 64);
  CHECK(o.format.scheme == Scheme::kAsymmetric);
  CHECK(o.format.scale_type == DType::kFloat16);
  CHECK(o.emit == Emit::kNBits);
  CHECK(o.keep == Keep::kHalf);
  CHECK(o.accuracy_level == 2);
  CHECK(o.accuracy_level_set);
  CHECK(o.non_finite == NonFinite::kClamp);
  CHECK(o.target.name == "onnxruntime-cpu");
  CHECK(o.skip == Words{"lm_head", "a|b"});
  CHECK(o.skip_op == Words{"Conv"});
  CHECK(o.only == Words{"layers", "mlp"});
  CHECK(o.include_op == Words{"LSTM"});
  CHECK(o.rules.empty());
}

TEST_CASE("the keys that are known are those that a file can set") {
  CHECK(QuantizeOptionKeys().size() == 17);
  CHECK(FormatOptionKeys() == Words{"weights", "group-size", "scheme", "scale-type"});
  Words lists;
  for (const std::string& key : QuantizeOptionKeys()) {
    if (HoldsList(key)) lists.push_back(key);
  }
  CHECK(lists == Words{"improve", "skip", "skip-op", "only", "include-op", "gate"});
}

TEST_CASE("a file without a word changes nothing") {
  for (const char* text : {"", "\n\n", "# a remark\n", "---\n", "~", "{}"}) {
    const QuantizeOptions o = Read(text);
    CHECK(o.format.weights == "int4");
    CHECK(o.format.group_size == 32);
    CHECK_FALSE(o.accuracy_level_set);
    CHECK(o.target.name == "portable");
  }
}

TEST_CASE("a file sets what it names over what was set before, adds to lists, and leaves the rest") {
  QuantizeOptions before;
  before.format.weights = "int8";
  before.format.scheme = Scheme::kAsymmetric;
  before.skip = {"first"};
  before.rules.emplace_back().match = "old";
  const QuantizeOptions o = Read("weights: uint8\nskip: [second]\nrules: [{match: new, skip: true}]\n", before);
  CHECK(o.format.weights == "uint8");
  CHECK(o.format.scheme == Scheme::kAsymmetric);
  CHECK(o.skip == Words{"first", "second"});
  REQUIRE(o.rules.size() == 2);
  CHECK(o.rules[0].match == "old");
  CHECK(o.rules[1].match == "new");
}

TEST_CASE("group sizes are a number, a channel or the whole tensor") {
  CHECK(Read("group-size: channel").format.granularity == Granularity::kChannel);
  CHECK(Read("group-size: tensor").format.granularity == Granularity::kTensor);
  CHECK(Read("group-size: '128'").format.group_size == 128);
  CHECK(Read("group-size: 9223372036854775807").format.group_size == INT64_MAX);
  QuantizeOptions before;
  before.format.granularity = Granularity::kChannel;
  CHECK(Read("group-size: 16", before).format.granularity == Granularity::kGroup);
}

TEST_CASE("rules keep their order, what they match, their words and their line") {
  const QuantizeOptions o = Read(R"(rules:
  - match: 'attn|mlp'
    group-size: 32
    weights: int8
  - op: Conv
    match: stem
    scale-type: fp16
    scheme: symmetric
  - {op: Gather, skip: true}
  - {match: x, skip: false, weights: int4}
)");
  REQUIRE(o.rules.size() == 4);
  CHECK(o.rules[0].match == "attn|mlp");
  CHECK(o.rules[0].op.empty());
  CHECK_FALSE(o.rules[0].skip);
  CHECK(o.rules[0].format == Pairs{{"group-size", "32"}, {"weights", "int8"}});
  CHECK(o.rules[0].where == "f.yaml:2");
  CHECK(o.rules[0].Label() == "rule 'attn|mlp' (f.yaml:2)");
  CHECK(o.rules[1].match == "stem");
  CHECK(o.rules[1].op == "Conv");
  CHECK(o.rules[1].format == Pairs{{"scale-type", "fp16"}, {"scheme", "symmetric"}});
  CHECK(o.rules[1].where == "f.yaml:5");
  CHECK(o.rules[2].skip);
  CHECK(o.rules[2].Label() == "rule Gather (f.yaml:9)");
  CHECK_FALSE(o.rules[3].skip);
  // The file's own format is not touched by its rules.
  CHECK(o.format.weights == "int4");
  CHECK(o.format.group_size == 32);
}

TEST_CASE("a rule made by hand has a label without a place") {
  WeightRule rule;
  rule.op = "Conv";
  CHECK(rule.Label() == "rule Conv");
  rule.match = "a";
  CHECK(rule.Label() == "rule 'a'");
}

TEST_CASE("an unknown key is shown with its place and the known ones") {
  const std::string error = ErrorOf("weights: int4\n  \nwieghts: int8\n");
  CHECK(Has(error, "f.yaml:3:1: unknown key 'wieghts'; known are weights, "));
  CHECK(Has(error, ", rules"));
  CHECK(Has(ErrorOf("rules:\n  - match: a\n    group: 3\n"),
            "f.yaml:3:5: unknown key 'group'; known are match, op, skip, weights, group-size, scheme, scale-type"));
  CHECK(Has(ErrorOf("rules: [{match: a, emit: qdq}]"), "f.yaml:1:20: unknown key 'emit'"));
}

TEST_CASE("a key given twice is an error at its second place") {
  CHECK(ErrorOf("weights: int4\nemit: qdq\nweights: int4\n") == "f.yaml:3:1: 'weights' is given twice");
  CHECK(ErrorOf("rules:\n- {match: a, weights: int4, match: b}\n") == "f.yaml:2:29: 'match' is given twice");
}

TEST_CASE("a value of the wrong kind is an error at its place") {
  CHECK(ErrorOf("weights: [int4]") == "f.yaml:1:10: weights takes a single value");
  CHECK(ErrorOf("group-size: {a: 1}") == "f.yaml:1:13: group-size takes a single value");
  CHECK(Has(ErrorOf("weights:\nemit: qdq\n"), "weights takes a single value"));
  CHECK(ErrorOf("skip: {a: b}") == "f.yaml:1:7: skip takes a list");
  CHECK(Has(ErrorOf("skip: ~"), "skip takes a list"));
  CHECK(ErrorOf("skip: [a, [b]]") == "f.yaml:1:11: skip takes a single value");
  CHECK(ErrorOf("rules: a") == "f.yaml:1:8: rules are a list");
  CHECK(ErrorOf("rules: {match: a, skip: true}") == "f.yaml:1:8: rules are a list");
  CHECK(ErrorOf("rules:\n  - a") == "f.yaml:2:5: a map of keys and values belongs here");
  CHECK(ErrorOf("rules:\n  - match: [a]\n    skip: true") == "f.yaml:2:12: match takes a single value");
  CHECK(ErrorOf("- weights: int4") == "f.yaml:1:1: a map of keys and values belongs here");
  CHECK(ErrorOf("int4") == "f.yaml:1:1: a map of keys and values belongs here");
  CHECK(ErrorOf("? [weights]\n: int4") == "f.yaml:1:3: a key must be a word");
}

TEST_CASE("a value that the flag would not take is an error that says what it takes") {
  CHECK(Has(ErrorOf("emit: qdq\nweights: int5"), "f.yaml:2:1: weights takes one of "));
  CHECK(Has(ErrorOf("weights: int5"), "not 'int5'"));
  CHECK(Has(ErrorOf("weights: int16"), "not 'int16'"));
  CHECK(Has(ErrorOf("weights: ''"), "not ''"));
  for (const char* bad : {"0", "-1", "1.5", "1e3", "0x10", "9223372036854775808", "99999999999999999999999", "channels",
                          "+4", "nan", "''", "' 4'", "'4 '", "1_000"}) {
    CHECK(Has(ErrorOf(std::string("group-size: ") + bad),
              "f.yaml:1:1: group-size takes a positive number, channel or tensor, not '"));
  }
  CHECK(ErrorOf("scheme: both") == "f.yaml:1:1: scheme takes one of symmetric, asymmetric, not 'both'");
  CHECK(ErrorOf("scale-type: bf16") == "f.yaml:1:1: scale-type takes one of fp32, fp16, not 'bf16'");
  CHECK(ErrorOf("emit: QDQ") == "f.yaml:1:1: emit takes one of qdq, nbits, qoperator, not 'QDQ'");
  CHECK(ErrorOf("keep: int8") == "f.yaml:1:1: keep takes one of fp32, fp16, not 'int8'");
  for (const char* bad : {"5", "-1", "4.0", "four"}) {
    CHECK(Has(ErrorOf(std::string("accuracy-level: ") + bad),
              "f.yaml:1:1: accuracy-level takes a whole number from 0 to 4, not '"));
  }
  CHECK(ErrorOf("clamp-non-finite: yes") == "f.yaml:1:1: clamp-non-finite takes one of true, false, not 'yes'");
  CHECK(Has(ErrorOf("target: toaster"),
            "target takes one of onnxruntime-cpu, onnxruntime-vnni, openvino, portable, qnn, tensorrt, tflite, not "
            "'toaster'"));
  CHECK(Has(ErrorOf("rules:\n- match: a\n  group-size: none"), "f.yaml:3:15: group-size takes a positive number"));
}

TEST_CASE("a rule must say which weights and what to do with them") {
  CHECK(ErrorOf("rules:\n  - weights: int8") == "f.yaml:2:5: a rule needs match, op or both");
  CHECK(ErrorOf("rules:\n  - {}") == "f.yaml:2:5: a rule needs match, op or both");
  CHECK(ErrorOf("rules:\n  - match: ''\n    skip: true") == "f.yaml:2:12: match is empty");
  CHECK(ErrorOf("rules:\n  - op: ''\n    skip: true") == "f.yaml:2:9: op is empty");
  CHECK(ErrorOf("rules:\n  - match: a\n    skip: true\n    scheme: symmetric") ==
        "f.yaml:2:5: a rule that skips has no use for scheme");
  CHECK(ErrorOf("rules:\n  - match: a") == "f.yaml:2:5: a rule without effect");
  CHECK(ErrorOf("rules:\n  - {match: a, skip: false}") == "f.yaml:2:5: a rule without effect");
  CHECK(ErrorOf("rules: [{match: a, skip: 1}]") == "f.yaml:1:26: skip takes true or false");
}

TEST_CASE("what is no YAML is an error with its place") {
  for (const char* text :
       {"weights: [", "weights: 'int4", "a: b: c", "weights: int4\n  emit: qdq", "\"", "{weights: int4",
        "weights: *nowhere", "%YAML 9.9\n%YAML 1.1\n---\n", "@", "weights: int4\n\temit: qdq"}) {
    CHECK(ErrorOf(text).rfind("f.yaml:", 0) == 0);
  }
  CHECK(ErrorOf("weights: int4\na: b: c").rfind("f.yaml:2:5: ", 0) == 0);
}

std::string Repeated(const std::string& part, size_t length) {
  std::string out;
  while (out.size() < length) out += part;
  return out;
}

// Whether it is read; it must end in a status, in about a second; ten allow for a busy machine and a sanitizer.
bool MustEnd(const std::string& text) {
  QuantizeOptions options;
  const auto start = std::chrono::steady_clock::now();
  const Status status = ReadQuantizeText(text, "f.yaml", options);
  INFO(text.substr(0, 40));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  CHECK((status.ok() || ExitCode(status) == 2));
  return status.ok();
}

TEST_CASE("a mebibyte of nesting ends in an error and no crash") {
  for (const char* part : {"[", "{", "- ", "? ", "[{", "a: ", "[?", "&a [", "!t [", "]", "}", "- - ? ", "{a: "}) {
    CHECK(!MustEnd(Repeated(part, size_t{1} << 20)));
  }
  std::string deeper;
  for (size_t i = 0; deeper.size() < (size_t{1} << 20); ++i) deeper += std::string(i, ' ') + "a:\n";
  CHECK(!MustEnd(deeper));
}

TEST_CASE("aliases that grow without end or hold themselves cost nothing") {
  std::string bomb = "x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string one = "*x" + std::to_string(i - 1);
    bomb += fmt::format("x{0}: &x{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", i, one);
  }
  CHECK(!MustEnd(bomb));
  std::string nested = "&x0 [a, a]";
  for (int i = 1; i < 60; ++i) nested = fmt::format("&x{} [{}, *x{}]", i, nested, i - 1);
  CHECK(!MustEnd("skip: " + nested));
  CHECK(!MustEnd("rules: " + nested));
  for (const char* text : {"&a [*a]", "skip: &a [*a]", "rules: &a [*a]", "&a {skip: *a}", "&a {rules: [*a]}",
                           "&a {*a: b}", "&a {rules: [{match: *a}]}", "rules: [&a {match: x, op: *a}]"}) {
    CHECK(!MustEnd(text));
  }
  CHECK(Read("rules: [&r {match: x, skip: true}, *r]").rules.size() == 2);
}

TEST_CASE("bytes of any kind end in a status") {
  const size_t size = size_t{1} << 20;
  for (const char byte :
       {'\0', '\x01', '\xff', '\xc0', '\xed', '\x7f', '\t', '\r', '*', '&', '!', '%', '|', '>', ','}) {
    MustEnd(std::string(size, byte));
    MustEnd("weights: " + std::string(1000, byte));
  }
  uint64_t state = 1;
  const auto next = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33; };
  const std::string alphabet = "[]{}:,-?&*!|>'\"%@#\n \tab0\\~=<.";
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    const auto length = next() % 40;
    for (uint64_t k = 0; k < length; ++k) {
      text += i % 2 == 0 ? alphabet[next() % alphabet.size()] : static_cast<char>(next() & 0xff);
    }
    MustEnd(text);
    MustEnd("rules: [{match: " + text);
    MustEnd("skip:\n- " + text);
  }
  for (const char* bom : {"\xff\xfe", "\xfe\xff", "\xef\xbb\xbf", "\xff\xfe\0\0"}) MustEnd(bom + std::string("a: b"));
}

TEST_CASE("huge numbers and long words are refused as values") {
  CHECK(!MustEnd("group-size: " + std::string(size_t{1} << 19, '9')));
  CHECK(!MustEnd("accuracy-level: -" + std::string(size_t{1} << 19, '9')));
  CHECK(!MustEnd("accuracy-level: 1e999999999"));
  CHECK(!MustEnd("weights: " + std::string(size_t{1} << 19, 'a')));
  CHECK(!MustEnd(std::string(size_t{1} << 19, 'a') + ": int4"));
}

TEST_CASE("a long list and many rules are read in time") {
  std::string text =
      "skip:\n" + Repeated("- a\n", size_t{1} << 19) + "rules:\n" + Repeated("- {op: A, skip: true}\n", 100000);
  QuantizeOptions options;
  REQUIRE(ReadQuantizeText(text, "f.yaml", options).ok());
  CHECK(options.skip.size() == (size_t{1} << 17));
  CHECK(options.rules.size() == 4546);
}

struct TempFile {
  std::string path = (std::filesystem::temp_directory_path() / "nibble_quantize_file_test.yaml").string();
  explicit TempFile(const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  ~TempFile() { std::filesystem::remove(path); }
};

TEST_CASE("a file is named in errors by its path") {
  const TempFile file("weights: int8\n\nemit: onnx\n");
  QuantizeOptions options;
  const Status status = ReadQuantizeFile(file.path, options);
  CHECK(ExitCode(status) == 2);
  CHECK(Message(status) == file.path + ":3:1: emit takes one of qdq, nbits, qoperator, not 'onnx'");
}

TEST_CASE("a file that is missing, a folder, or too long is a data error") {
  QuantizeOptions options;
  CHECK(ExitCode(ReadQuantizeFile("/nowhere/at/all.yaml", options)) == 3);
  CHECK(ExitCode(ReadQuantizeFile(std::filesystem::temp_directory_path().string(), options)) == 3);
  const TempFile longest(std::string(size_t{1} << 20, '#'));
  CHECK(ReadQuantizeFile(longest.path, options).ok());
  const TempFile longer(std::string((size_t{1} << 20) + 1, '#'));
  CHECK(ExitCode(ReadQuantizeFile(longer.path, options)) == 3);
}

TEST_CASE("options written as a file are read back the same") {
  const std::string text = R"(weights: int8
group-size: channel
scheme: asymmetric
scale-type: fp16
emit: nbits
keep: fp16
accuracy-level: 2
clamp-non-finite: true
target: onnxruntime-cpu
skip:
  - 'it''s|\d: #'
skip-op:
  - 'Conv'
only:
  - 'true'
include-op:
  - 'LSTM'
rules:
  - match: '^a\.b$'
    op: Gemm
    weights: int4
    group-size: 32
  - match: '~'
    skip: true
)";
  CHECK(QuantizeFileText(Read(text)) == text);
  CHECK(QuantizeFileText(Read(QuantizeFileText({}))) == QuantizeFileText({}));
  QuantizeOptions odd;
  odd.skip = {"line\nbreak", "tab\t", "\xc3\xa9", "", "'", "\"", "a: b", "- x"};
  CHECK(Read(QuantizeFileText(odd)).skip == odd.skip);
}

}  // namespace
}  // namespace quant
