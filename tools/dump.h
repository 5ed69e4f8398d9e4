// Tensors of a run written to a folder as they are made, one .npy file each, and a list of them:
//
//   FOLDER/sample_0/index.tsv          file, name, dtype, dims, min, max, mean
//   FOLDER/sample_0/0000_conv1_out.npy
//
// A tensor is in memory only while it is written.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"

namespace quant {

class Dump {
 public:
  // Tensors whose name, or that of the node that makes them, matches one of the RE2 patterns; UsageError for a pattern
  // that matches none, OutputError when the folder is there and not empty: nothing is ever overwritten.
  static StatusOr<std::unique_ptr<Dump>> Open(const Graph& graph, const std::string& folder,
                                              const std::vector<std::string>& patterns);

  Status BeginSample(int64_t sample);
  // For RunHooks.
  bool Chosen(const std::string& name) const { return chosen_.contains(name); }
  Status Write(const std::string& name, const Tensor& tensor);
  Status EndSample();

  int64_t files() const { return files_; }
  // Chosen tensors that were not made in any run: they are constant, or in a branch that was not taken.
  int64_t never_made() const { return static_cast<int64_t>(chosen_.size() - made_.size()); }

 private:
  explicit Dump(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
  std::set<std::string> chosen_, made_;
  std::string sample_folder_;
  std::string index_;
  int64_t in_sample_ = 0;
  int64_t files_ = 0;
};

}  // namespace quant
