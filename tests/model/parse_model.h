// A model from ONNX's text, for tests: a text that does not parse fails the test.
#pragma once

#include <string>
#include <utility>

#include "libquant/model/text.h"
#include "tests/catch.h"

namespace quant {

inline Model Parse(const std::string& text) {
  auto model = ParseModelText(text);
  INFO(Message(model.status()));
  REQUIRE(model.ok());
  return std::move(*model);
}

}  // namespace quant
