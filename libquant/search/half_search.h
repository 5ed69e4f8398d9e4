// Which nodes have to stay float32 for a half model's answers to be as near to the float model's as is wanted.
//
// Each round makes the model half, runs both on the samples and compares what they make, layer by layer. Of the layers
// that reach an output below the line, those that add most noise relative to their signal stay float32 from then on,
// with what makes their inputs: a node alone between half ones would read and write rounded values anyway. Rounds take
// twice as many as the one before, so that there are few. When the line is reached, what each round took is given back
// where the line holds without it. All of it is measured, and the same on every run.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/ir/graph.h"
#include "passes/convert/to_half.h"

namespace quant {

struct HalfSearchOptions {
  double min_sqnr = 45;  // dB, of every output on every sample
  std::function<void(int64_t, int64_t)> progress = nullptr;
};

struct HalfRound {
  bool gives_back = false;
  bool held = false;               // giving back: the line held, and the nodes are half again
  std::vector<std::string> nodes;  // that this round made float32, or tried to make half again
  std::string worst;               // output, after that
  double sqnr = 0;                 // dB, of it
};

struct HalfSearch {
  Model model;  // half
  HalfReport half;
  std::vector<HalfRound> rounds;                        // the first has no nodes
  std::vector<std::pair<std::string, double>> outputs;  // dB on the worst sample, of `model`
  bool met = false;
};

// `model` stays as it is, and must have types. `options` says what stays float32 in any case.
StatusOr<HalfSearch> SearchHalf(const Model& model, SampleSource& samples, const HalfOptions& options,
                                const HalfSearchOptions& search);

}  // namespace quant
