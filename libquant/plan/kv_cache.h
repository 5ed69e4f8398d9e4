// The keys and values of past tokens that a decoder is handed and hands back. Found by what nodes do with them, else by
// names:
//
//   Attention, GroupQueryAttention, MultiHeadAttention   past inputs and present outputs; [batch, heads, length, size],
//                                                        com.microsoft Attention merged: [2, batch, heads, length,
//                                                        size]
//   TensorScatter                                        a cache of fixed length, written over
//   present = Concat(past, new)                          between a graph input and a graph output
//   past_key_values.0.key -> present.0.key               a graph input and an output whose names differ in that only
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

struct CacheTensor {
  ValueId past = kNoValue;     // the graph input, if there is one
  ValueId present = kNoValue;  // the graph output, if there is one
  Shape shape;                 // of the present, else of the past
  size_t length_axis = 0;
  DType dtype = DType::kUndefined;
  bool grows = false;  // the present is longer than the past
};

// In the order of the graph's inputs and outputs. Functions must have been expanded, types inferred.
std::vector<CacheTensor> FindCaches(const Graph& graph);

struct CacheSize {
  int64_t bytes = 0;
  int64_t bytes_per_token = 0;
  int64_t length = 0;               // of the longest
  std::vector<std::string> opened;  // names of dimensions that counted as 1
};

// `length`: of the caches that grow, and of those of open length. `bits`: of an element; nullopt: the graph's type, of
// which float32 counts as 16 bits when `half`. UsageError when 64 bits don't hold it.
struct CacheOptions {
  std::optional<int64_t> length = std::nullopt;
  std::optional<int64_t> bits = std::nullopt;
  bool half = false;
};
StatusOr<CacheSize> MeasureCaches(const std::vector<CacheTensor>& caches, const CacheOptions& options);

// Numbers for the names of a model's dimensions that follow from a sequence length and a batch.
struct SequenceDims {
  std::optional<int64_t> sequence = std::nullopt;  // tokens in all: past and new ones
  std::optional<int64_t> batch = std::nullopt;
  std::map<std::string, int64_t> given = {};  // that the user gave; they stand
};
// With a cache: its present length is the sequence, the inputs of token ids get one new token and the past the rest.
// Without one the inputs of token ids get the sequence. UsageError when nothing in the model takes one of the two.
StatusOr<std::map<std::string, int64_t>> BindSequence(const Graph& graph, const std::vector<CacheTensor>& caches,
                                                      const SequenceDims& dims);

}  // namespace quant
