#include "libquant/calib/channel_means.h"

#include <algorithm>
#include <cmath>

#include "libquant/calib/channel_spans.h"
#include "libquant/calib/observe.h"

namespace quant {
namespace {

struct Sums {
  int64_t from_end = -1;
  std::vector<double> sums;
  std::vector<int64_t> counts;
  bool seen = false, unlike = false;

  void Add(const Tensor& tensor) {
    const auto channels = static_cast<size_t>(ChannelCount(tensor.dims(), from_end));
    if (!seen) {
      sums.assign(channels, 0);
      counts.assign(channels, 0);
    }
    seen = true;
    unlike = unlike || channels != sums.size();
    if (unlike) return;
    ForEachChannelSpan(tensor.data<float>(), tensor.dims(), from_end, [&](size_t c, std::span<const float> span) {
      for (const float x : span) {
        if (!std::isfinite(x)) continue;
        sums[c] += static_cast<double>(x);
        ++counts[c];
      }
    });
  }
};

}  // namespace

StatusOr<ChannelMeans> MeasureChannelMeans(const Model& model, const std::vector<RangeWanted>& wanted,
                                           SampleSource& samples,
                                           const std::function<void(int64_t done, int64_t all)>& progress) {
  std::map<std::string, Sums, std::less<>> all;
  for (const RangeWanted& w : wanted) {
    if (w.channel_axis) all[w.name].from_end = *w.channel_axis;
  }
  RETURN_IF_ERROR(ObserveValues(
      model, samples, [&](const std::string& name) { return all.contains(name); },
      [&](const std::string& name, const Tensor& tensor) {
        if (tensor.dtype() == DType::kFloat) all.find(name)->second.Add(tensor);
        return OkStatus();
      },
      progress));
  ChannelMeans means;
  for (auto& [name, s] : all) {
    if (!s.seen || s.unlike || s.sums.empty()) continue;
    for (size_t c = 0; c < s.sums.size(); ++c) s.sums[c] /= static_cast<double>(std::max<int64_t>(s.counts[c], 1));
    means[name] = std::move(s.sums);
  }
  return means;
}

}  // namespace quant
