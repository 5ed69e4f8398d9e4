#include "libquant/ops/phased_plane.h"

#include "libquant/base/checked.h"

namespace quant {

PhasedPlane::Runs PhasedPlane::RunsOf(const WindowAxis& axis) {
  Runs out;
  out.run = axis.out + (axis.extent() - 1) / axis.stride;
  for (int64_t k = 0; k < axis.kernel; ++k) out.phases.push_back(k * axis.dilation % axis.stride);
  std::sort(out.phases.begin(), out.phases.end());
  out.phases.erase(std::unique(out.phases.begin(), out.phases.end()), out.phases.end());
  return out;
}

PhasedPlane::PhasedPlane(const std::array<WindowAxis, 3>& axes)
    : axes_(axes), runs_{RunsOf(axes[0]), RunsOf(axes[1]), RunsOf(axes[2])} {
  const auto& [d, h, w] = axes_;
  const auto& [rd, rh, rw] = runs_;
  const auto elements = CheckedProduct(std::array{rd.run, rh.run, rw.run, rd.count(), rh.count(), rw.count()});
  modest_ = elements && *elements <= 4 * d.in * h.in * w.in + 1024;
  if (!modest_) return;
  elements_ = *elements;
  positions_ = ((d.out - 1) * rh.run + h.out - 1) * rw.run + w.out;
  const int64_t phase_size = rd.run * rh.run * rw.run;
  for (int64_t phase : rw.phases) {
    const int64_t first = phase - w.pad_begin;
    const auto [lo, hi] = IndicesInside(first, w.stride, w.in, rw.run);
    columns_.push_back({lo, hi, first + lo * w.stride});
  }
  for (int64_t i = 0; i < d.kernel; ++i) {
    const int64_t td = i * d.dilation;
    for (int64_t j = 0; j < h.kernel; ++j) {
      const int64_t th = j * h.dilation;
      for (int64_t k = 0; k < w.kernel; ++k) {
        const int64_t tw = k * w.dilation;
        const int64_t phase = (rd.IndexOf(td % d.stride) * rh.count() + rh.IndexOf(th % h.stride)) * rw.count() +
                              rw.IndexOf(tw % w.stride);
        tap_offsets_.push_back(phase * phase_size + (td / d.stride * rh.run + th / h.stride) * rw.run + tw / w.stride);
      }
    }
  }
}

std::vector<PhasedPlane::Run> PhasedPlane::RunsOfOutputs(int64_t begin, int64_t end) const {
  const auto& [d, h, w] = axes_;
  std::vector<Run> out;
  for (int64_t o = begin; o < end;) {
    const int64_t column = o % w.out, row = o / w.out % h.out, slice = o / w.out / h.out;
    const int64_t count = std::min(w.out - column, end - o);
    out.push_back({(slice * runs_[1].run + row) * runs_[2].run + column, count});
    o += count;
  }
  return out;
}

}  // namespace quant
