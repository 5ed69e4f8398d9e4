// Layer by layer: the values that two models both make, by their names, held against each other as they are made. What
// the reference made of one sample waits in a temporary file until the candidate makes its own, so memory stays that of
// one run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/exec/session.h"
#include "libquant/ir/graph.h"
#include "libquant/report/diff_report.h"
#include "libquant/verify/tensor_spill.h"

namespace quant {

class LayerCollector {
 public:
  // Both models must outlive it. Values that nodes make, bodies included; a value that is made several times (in a
  // loop) is compared each time.
  static StatusOr<std::unique_ptr<LayerCollector>> Make(const Model& reference, const Model& candidate);

  // For each sample: the reference runs with the first hooks, then the candidate with the second.
  RunHooks ReferenceHooks();
  RunHooks CandidateHooks();
  Status EndSample();

  // What was found; layers that did not run are left out. Good once.
  LayerDiff Finish();

  // From here on values of the `count` worst layers are collected for histograms, instead of measured: of one sample,
  // run on both sides twice, since bins need their range first.
  void BeginHistograms(size_t count);
  bool WantsAnotherRun() const { return ranges_known_ < 1; }
  void AddHistograms(LayerDiff& diff) const;

 private:
  struct Layer {
    DiffLayer diff;
    std::vector<TensorSpill::Place> waiting;  // of the sample under way, in the order they were made
    size_t taken = 0;
  };
  struct Bins {
    double low = 0, high = 0, error = 0;  // ranges of both sides' values, and of the largest error
    bool any = false;
    std::vector<int64_t> reference, candidate, errors;
  };

  LayerCollector(std::unique_ptr<TensorSpill> spill) : spill_(std::move(spill)) {}
  Status SeeReference(const std::string& name, const Tensor& tensor);
  Status SeeCandidate(const std::string& name, const Tensor& tensor);
  Status AddToBins(Bins& bins, const OutputMetrics::Elements& reference, const Tensor& got) const;
  bool Watched(const std::string& name) const;

  std::unique_ptr<TensorSpill> spill_;
  std::map<std::string, size_t> places_;  // in layers_
  std::vector<Layer> layers_;
  int64_t reference_values_ = 0;
  std::map<std::string, OutputMetrics> integers_;  // of the candidate
  std::vector<std::string> integer_order_;
  std::map<std::string, Bins> bins_;  // not empty: histograms are collected
  std::vector<std::string> bin_order_;
  int ranges_known_ = 0;
};

}  // namespace quant
