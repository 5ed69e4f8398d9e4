// Outputs of a run in .npz files, as `nibble run -o FILE.npz` writes them: one archive of a single sample; or one of
// several, stacked along their leading dimension of 1; or an archive each, FILE_0.npz, FILE_1.npz and so on.
#pragma once

#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/npz_archive.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

// "out.npz" -> "out_3.npz".
std::string OutputFileOf(const std::string& path, int64_t sample);

class SavedOutputs {
 public:
  // Of so many samples. DataError when there are no such files or they hold another number of samples.
  static StatusOr<SavedOutputs> Open(const std::string& path, int64_t samples);

  // The outputs of one sample, under the names that the archive gives.
  StatusOr<NamedTensors> Load(int64_t sample);
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::vector<std::string> files_;
  std::vector<NpzMember> stacked_;  // of several samples in one file
};

}  // namespace quant
