#include "libquant/config/target.h"

#include <algorithm>

#include "tests/catch.h"

namespace quant {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto target = ReadTargetText(text, "t.yaml");
  INFO(text);
  REQUIRE(!target.ok());
  CHECK(ExitCode(target.status()) == 2);
  return Message(target.status());
}

TEST_CASE("every target can be read and says what it is; what has a limit is run") {
  CHECK(TargetNames().size() >= 7);
  for (const std::string& name : TargetNames()) {
    INFO(name);
    const auto target = FindTarget(name);
    REQUIRE(target.ok());
    CHECK(target->name == name);
    CHECK(!target->about.empty());
    CHECK(target->min_opset <= target->max_opset);
    for (const auto& [op, text] : target->limits) {
      INFO(op);
      CHECK((target->Runs("", op) || target->Runs("com.microsoft", op)));
      CHECK(!text.empty());
    }
    // What any model needs.
    for (const char* op : {"Conv", "MatMul", "Gemm", "Add", "Relu", "Reshape", "Transpose", "Softmax", "Constant"}) {
      INFO(op);
      CHECK(target->Runs("", op));
    }
    for (const auto* list : {&target->runs, &target->lacks, &target->microsoft, &target->others}) {
      std::vector<std::string> sorted = *list;
      std::sort(sorted.begin(), sorted.end());
      CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
    }
  }
}

TEST_CASE("the two targets of ONNX Runtime on CPUs run the same operators") {
  const auto cpu = FindTarget("onnxruntime-cpu"), vnni = FindTarget("onnxruntime-vnni");
  REQUIRE(cpu.ok());
  REQUIRE(vnni.ok());
  CHECK(cpu->microsoft == vnni->microsoft);
  CHECK(cpu->others == vnni->others);
  CHECK(cpu->lacks == vnni->lacks);
  CHECK(cpu->limits == vnni->limits);
  CHECK(cpu->types == vnni->types);
}

TEST_CASE("a list of what runs, of what does not, of other domains") {
  const auto target = ReadTargetText("runs: [Add]\nmicrosoft: Gelu\nothers: ['mine:Thing']\nint4: false", "t.yaml");
  REQUIRE(target.ok());
  CHECK(target->Runs("", "Add"));
  CHECK(target->Runs("ai.onnx", "Add"));
  CHECK_FALSE(target->Runs("", "Sub"));
  CHECK(target->Runs("com.microsoft", "Gelu"));
  CHECK_FALSE(target->Runs("com.microsoft", "Add"));
  CHECK(target->Runs("mine", "Thing"));
  CHECK_FALSE(target->Runs("mine", "Add"));
  CHECK_FALSE(target->int4);
  CHECK(target->float16);
  const auto rest = ReadTargetText("lacks: [Sub]", "t.yaml");
  REQUIRE(rest.ok());
  CHECK(rest->Runs("", "Add"));
  CHECK_FALSE(rest->Runs("", "Sub"));
}

TEST_CASE("element types by operator, those of all others, and what is not known") {
  const auto target = ReadTargetText(
      "types:\n  - takes: [float32, int64]\n  - takes: float32\n    of: [Conv, 'com.microsoft:Gelu']\n", "t.yaml");
  REQUIRE(target.ok());
  CHECK(target->Takes("", "Add", DType::kInt64));
  CHECK_FALSE(target->Takes("", "Add", DType::kDouble));
  CHECK(target->Takes("ai.onnx", "Conv", DType::kFloat));
  CHECK_FALSE(target->Takes("ai.onnx", "Conv", DType::kInt64));
  CHECK_FALSE(target->Takes("com.microsoft", "Gelu", DType::kInt64));
  CHECK(target->Takes("com.microsoft", "BiasGelu", DType::kInt64));
  CHECK(Target().Takes("", "Add", DType::kDouble));
}

TEST_CASE("what has types of its own is run") {
  for (const std::string& name : TargetNames()) {
    INFO(name);
    const auto target = FindTarget(name);
    REQUIRE(target.ok());
    for (const auto& [op, types] : target->types) {
      INFO(op);
      const size_t colon = op.find(':');
      const bool other = colon != std::string::npos;
      CHECK(!types.empty());
      CHECK((op.empty() || target->Runs(other ? op.substr(0, colon) : "", other ? op.substr(colon + 1) : op)));
    }
  }
}

TEST_CASE("faults of a target's file have a place") {
  CHECK(ErrorOf("float16: 1") == "t.yaml:1:10: float16 takes true or false");
  CHECK(ErrorOf("min-opset: 0") == "t.yaml:1:12: min-opset takes a number of 1 or more");
  CHECK(ErrorOf("limits: [Add]") == "t.yaml:1:9: limits takes a map");
  CHECK(ErrorOf("limits:\n  Add: x\n  Add: y").find("Add") != std::string::npos);
  CHECK(ErrorOf("types: {}") == "t.yaml:1:8: types takes a list");
  CHECK(ErrorOf("types: [{takes: float}]") == "t.yaml:1:17: there is no type float");
  CHECK(ErrorOf("types: [{takes: int8, of: Add}, {takes: int8, of: Add}]").find("Add are given twice") !=
        std::string::npos);
  CHECK(ErrorOf("types: [{takes: int8}, {takes: int8}]").find("all others") != std::string::npos);
  CHECK(ErrorOf("run: [Add]").find("t.yaml:1:1: unknown key 'run'") == 0);
}

}  // namespace
}  // namespace quant
