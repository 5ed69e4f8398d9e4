// Many cases of one seed, in processes of their own that a fault may end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/case_result.h"
#include "tests/fuzz/corpus.h"

namespace quant {

struct CampaignOptions {
  FuzzTarget target = nullptr;
  int64_t mutations = 0;       // of each corpus entry, after the entry itself
  uint64_t seed = 1;           // the same seed: the same cases
  double seconds = 0;          // ends the campaign early; 0: never
  unsigned case_seconds = 60;  // a case that takes longer is a fault
  std::string folder;          // where the case under way and those at fault are kept
};

// Runs the cases and prints totals. Each is a file before it is run: FOLDER/case.onnx. One at fault is left as
// FOLDER/fault-NUMBER.onnx with what was printed beside it (.log). The number of faults.
int64_t RunCampaign(const std::vector<CorpusEntry>& corpus, const CampaignOptions& options);

}  // namespace quant
