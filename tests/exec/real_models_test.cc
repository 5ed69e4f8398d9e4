// The executor on models exported by others.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "libquant/base/parallel.h"
#include "libquant/data/samples.h"
#include "libquant/exec/session.h"
#include "libquant/model/read.h"
#include "tests/catch.h"

namespace quant {
namespace {

const char* const kModels[] = {"mnist",      "super_resolution", "fr_age",          "fr_detect",
                               "fr_feature", "fr_pose",          "version-RFB-320", "bert_mlm_random"};

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dims() == b.dims() && std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

TEST_CASE("real models run, and give the same bytes for 1, 2 and 8 threads and from run to run") {
  if (!std::filesystem::is_directory(NIBBLE_SHARED_MODELS)) {
    WARN("NOT RUN: no models at " NIBBLE_SHARED_MODELS);
    return;
  }
  for (const char* name : kModels) {
    INFO(name);
    const auto model = ReadModel(std::string(NIBBLE_SHARED_MODELS "/") + name + ".onnx");
    INFO(model.status());
    REQUIRE(model.ok());
    auto samples = RandomSamples(2, 7, RequiredInputs(*model), {.others = 16});
    NamedTensors reference;
    for (const int threads : {1, 2, 8}) {
      SetThreads(threads);
      auto session = Session::Create(*model);
      INFO(session.status());
      REQUIRE(session.ok());
      // A run on another sample first: its buffers come back dirty.
      for (const int64_t i : {1, 0}) {
        const auto out = (*session)->Run(*samples->Load(i));
        INFO(out.status());
        REQUIRE(out.ok());
        REQUIRE(!out->empty());
        if (i == 1) continue;
        if (reference.empty()) reference = *out;
        for (size_t o = 0; o < out->size(); ++o) CHECK(SameBytes((*out)[o].second, reference[o].second));
      }
    }
    for (const auto& [output, tensor] : reference) {
      INFO(output);
      if (tensor.dtype() != DType::kFloat) continue;
      CHECK(std::all_of(tensor.data<float>().begin(), tensor.data<float>().end(),
                        [](float v) { return std::isfinite(v); }));
    }
  }
  SetThreads(0);
}

TEST_CASE("ids of a language model are bounded by its vocabulary") {
  if (!std::filesystem::is_directory(NIBBLE_SHARED_MODELS)) {
    WARN("NOT RUN: no models at " NIBBLE_SHARED_MODELS);
    return;
  }
  const auto model = ReadModel(NIBBLE_SHARED_MODELS "/t5_encoder_random.onnx");
  REQUIRE(model.ok());
  const std::vector<InputSpec> inputs = RequiredInputs(*model);
  REQUIRE(inputs.size() == 2);
  CHECK(inputs[0].name == "input_ids");
  CHECK(inputs[0].index_bound == 9999);
  CHECK(inputs[1].name == "attention_mask");
  CHECK(inputs[1].index_bound == 0);
}

}  // namespace
}  // namespace quant
