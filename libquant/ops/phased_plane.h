// A channel copied so that a convolution's taps become shifts: padded, its slices, rows and columns sorted by phase
// (index modulo stride). What tap t of the output at flat position q reads is
//   copy[tap_offsets()[t] + q]
// for flat positions q that run over whole rows of the copy: a few of them, past the end of each row of outputs, are of
// no use and dropped by TakeOutputs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "libquant/ops/deinterleave.h"
#include "libquant/ops/window.h"

namespace quant {

class PhasedPlane {
 public:
  // The copy may hold fewer rows of outputs than the input gives: axes[1].out of them.
  explicit PhasedPlane(const std::array<WindowAxis, 3>& axes);

  int64_t elements() const { return elements_; }
  // Flat positions from the first output to the last.
  int64_t positions() const { return positions_; }
  int64_t outputs() const { return axes_[0].out * axes_[1].out * axes_[2].out; }
  // Flat positions from one row of outputs to the next.
  int64_t row() const { return runs_[2].run; }
  const std::vector<int64_t>& tap_offsets() const { return tap_offsets_; }
  // Where outputs [begin, end) lie among the positions, as runs in their order.
  struct Run {
    int64_t position, count;
  };
  std::vector<Run> RunsOfOutputs(int64_t begin, int64_t end) const;
  // False for a copy much larger than its input (a dilated kernel wider than it, say): not worth making, and nothing
  // else here may be used.
  bool is_modest() const { return modest_; }

  // Copies `x` for the rows of outputs from `first_row` on (0 unless there is a single slice).
  template <typename T>
  void Copy(const T* x, int64_t first_row, T* out) const;

  // Copies what is an output among positions [begin, end) to its place in y. Returns the outputs copied; begin is -1
  // when there are none.
  template <typename T>
  IndexRange TakeOutputs(const T* made, int64_t begin, int64_t end, T* y) const;

 private:
  // One axis: the phases that some tap needs and the elements of each. Element j of phase p is input
  // p + j * stride - pad.
  struct Runs {
    std::vector<int64_t> phases;
    int64_t run = 0;
    int64_t count() const { return static_cast<int64_t>(phases.size()); }
    int64_t IndexOf(int64_t phase) const {
      return std::lower_bound(phases.begin(), phases.end(), phase) - phases.begin();
    }
  };
  static Runs RunsOf(const WindowAxis& axis);
  // Of a phase of columns: elements [lo, hi) are input, starting at column `from`.
  struct Columns {
    int64_t lo, hi, from;
  };
  // A slice's rows row, row + stride, ... of the input.
  template <typename T>
  void CopyRows(const Columns& columns, int64_t row, const T* slice, T* out) const;
  template <typename T>
  void CopyRow(const Columns& columns, const T* row, T* out) const;

  std::array<WindowAxis, 3> axes_;
  std::array<Runs, 3> runs_;
  std::vector<Columns> columns_;
  int64_t elements_ = 0, positions_ = 0;
  std::vector<int64_t> tap_offsets_;
  bool modest_ = true;
};

template <typename T>
void PhasedPlane::CopyRow(const Columns& columns, const T* row, T* out) const {
  for (int64_t i = 0; i < columns.lo; ++i) out[i] = 0;
  if (columns.lo < columns.hi) {
    CopyEveryNth(row + columns.from, axes_[2].stride, columns.hi - columns.lo, out + columns.lo);
  }
  for (int64_t i = columns.hi; i < runs_[2].run; ++i) out[i] = 0;
}

template <typename T>
void PhasedPlane::CopyRows(const Columns& columns, int64_t row, const T* slice, T* out) const {
  const WindowAxis& h = axes_[1];
  const int64_t rows = runs_[1].run, run = runs_[2].run;
  const auto [lo, hi] = IndicesInside(row, h.stride, h.in, rows);
  std::fill_n(out, lo * run, T{0});
  for (int64_t i = lo; i < hi; ++i) CopyRow(columns, slice + (row + i * h.stride) * axes_[2].in, out + i * run);
  std::fill_n(out + hi * run, (rows - hi) * run, T{0});
}

template <typename T>
void PhasedPlane::Copy(const T* x, int64_t first_row, T* out) const {
  const auto& [d, h, w] = axes_;
  const int64_t slice_size = runs_[1].run * runs_[2].run;
  for (int64_t phase_d : runs_[0].phases) {
    for (int64_t phase_h : runs_[1].phases) {
      for (const Columns& columns : columns_) {
        for (int64_t slice = 0; slice < runs_[0].run; ++slice, out += slice_size) {
          const int64_t id = phase_d + slice * d.stride - d.pad_begin;
          if (id < 0 || id >= d.in) {
            std::fill_n(out, slice_size, T{0});
          } else {
            CopyRows(columns, phase_h + first_row * h.stride - h.pad_begin, x + id * h.in * w.in, out);
          }
        }
      }
    }
  }
}

template <typename T>
IndexRange PhasedPlane::TakeOutputs(const T* made, int64_t begin, int64_t end, T* y) const {
  const auto& [d, h, w] = axes_;
  const int64_t run = runs_[2].run, rows = runs_[1].run;
  IndexRange range = {-1, -1};
  int64_t column = begin % run, row = begin / run % rows, slice = begin / run / rows;
  for (int64_t q = begin; q < end;) {
    const int64_t next = std::min(end, q - column + run);
    if (row < h.out && column < w.out) {
      const int64_t count = std::min(next - q, w.out - column);
      const int64_t at = (slice * h.out + row) * w.out + column;
      CopyRun(made + (q - begin), count, y + at);
      if (range.begin < 0) range.begin = at;
      range.end = at + count;
    }
    q = next;
    column = 0;
    if (++row == rows) row = 0, ++slice;
  }
  return range;
}

}  // namespace quant
