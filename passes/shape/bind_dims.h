// Gives the dimensions of a model numbers, and forgets every shape that was inferred for other ones. Two steps around
// whatever passes run in between:
//
//   BindDims         names and inputs become numbers, wherever a shape names them; shapes of inner values and of
//                    outputs are cleared and inferred again, so that nothing an exporter left behind stays
//   KeepDeclared     what the file said about outputs comes back where inference still has no number
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

// A 0 is a dimension like others where it is asked for: a cache that holds nothing yet. All tensors with it are empty.
struct DimRequest {
  struct Named {
    std::string name;
    int64_t number = 0;
  };
  struct Input {
    std::string name;
    std::vector<std::optional<int64_t>> dims;  // nullopt: as it is
  };
  // An input that becomes a constant, of one element.
  struct Fixed {
    std::string name;
    std::string number;  // "16000", "0.5", "true"
  };
  std::vector<Named> dims;
  std::vector<Input> inputs;
  std::vector<Fixed> values;
};

// A name and its number, and how it came to it.
struct BoundDim {
  std::string name;
  int64_t number = 0;
  std::string from;  // "--dim", "input x", "its parts"
  int places = 0;    // dimensions of values that had the name
};

struct BoundDims {
  std::vector<BoundDim> names;           // in the order given, then computed ones
  int unnamed = 0;                       // dimensions of inputs that had no name, or no rank
  std::map<std::string, Shape> outputs;  // as the file declared them, names bound
};

// The model as it was read, types not inferred yet (ReadModel): they would hide what the file declares. A name "?"
// stands for no name. Inferred types are there afterwards. UsageError for a request that contradicts the model or
// itself, and then the model is as it was; DataError when the model contradicts itself with these numbers.
StatusOr<BoundDims> BindDims(Model& model, const DimRequest& request);

// Names and numbers that the file declared of dimensions of the graph's outputs, where they still have none.
void KeepDeclared(Model& model, const BoundDims& bound);

// Tensors that nodes make, bodies included, and inputs that are fed: those whose shape is all numbers, and all.
struct StaticCount {
  int64_t fixed = 0;
  int64_t all = 0;
};
StaticCount CountStatic(const Graph& graph);

}  // namespace quant
