// Whether element types of a graph agree with each other, as runtimes check it when they load a model. Unlike ONNX's
// inference this goes on behind operators of unknown domains.
#pragma once

#include <string>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct TypeClash {
  std::string node;  // its label
  std::string what;  // one sentence
};

// Nodes whose inputs and outputs are not of types that their operator takes together, and bodies whose outputs are not
// of the types of the If, Loop or Scan around them; functions' bodies included, as far as types are known there. Values
// of unknown types clash with nothing.
std::vector<TypeClash> TypeClashes(const Model& model);

}  // namespace quant
