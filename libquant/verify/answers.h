// One side of a comparison: answers to samples, of a model that runs or saved before.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/exec/session.h"
#include "libquant/ir/named_tensors.h"

namespace quant {

class Answers {
 public:
  virtual ~Answers() = default;
  // The file they come from, for messages.
  virtual const std::string& path() const = 0;
  // The names of its answers.
  virtual StatusOr<std::vector<std::string>> Names() = 0;
  // `hooks` see a run, where there is one.
  virtual StatusOr<NamedTensors> Of(int64_t sample, const NamedTensors& feeds, const RunHooks& hooks) = 0;
};

// Of a model: the session runs it.
std::unique_ptr<Answers> RunningAnswers(std::string path, const Model& model, std::unique_ptr<Session> session);

// Of a file that `nibble run -o FILE.npz` or another runtime's script wrote. DataError when it holds those of another
// number of samples.
StatusOr<std::unique_ptr<Answers>> SavedAnswers(std::string path, int64_t samples);

// Those stored beside the samples (test_data_set_*/output_*.pb). DataError when there are none.
StatusOr<std::unique_ptr<Answers>> StoredAnswers(std::string path, SampleSource& samples);

// Asks `inner` once a sample and keeps what it says in a temporary file that has no name.
StatusOr<std::unique_ptr<Answers>> RememberedAnswers(std::unique_ptr<Answers> inner);

// Asks `inner` for every sample at once and keeps what it says there; `inner` is not needed afterwards. `progress` is
// told samples done and all.
StatusOr<std::unique_ptr<Answers>> AnswersKept(Answers& inner, SampleSource& samples,
                                               const std::function<void(int64_t, int64_t)>& progress = nullptr);

}  // namespace quant
