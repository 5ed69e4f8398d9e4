#include "libquant/search/some_samples.h"

#include <algorithm>

namespace quant {
namespace {

class Part : public SampleSource {
 public:
  Part(SampleSource& inner, int64_t count) : inner_(inner), count_(std::min(count, inner.count())) {}
  int64_t count() const override { return count_; }
  StatusOr<NamedTensors> Load(int64_t i) override { return inner_.Load(Place(i)); }
  StatusOr<NamedTensors> LoadExpected(int64_t i) override { return inner_.LoadExpected(Place(i)); }
  std::string ChosenSizes() const override { return inner_.ChosenSizes(); }

 private:
  int64_t Place(int64_t i) const { return i * inner_.count() / count_; }

  SampleSource& inner_;
  int64_t count_;
};

}  // namespace

std::unique_ptr<SampleSource> SomeSamples(SampleSource& samples, int64_t count) {
  return std::make_unique<Part>(samples, count);
}

}  // namespace quant
