// The discrete Fourier transform of any length, in double: by halving for powers of two, else as a convolution of such
// a length (Bluestein).
#pragma once

#include <cstdint>
#include <vector>

namespace quant {

struct Complex {
  double re = 0, im = 0;
};

class Fourier {
 public:
  static constexpr int64_t kLongest = int64_t{1} << 28;

  // 0 < length <= kLongest.
  explicit Fourier(int64_t length);

  int64_t length() const { return length_; }
  // Numbers that a transform works on: its data first, then its scratch.
  int64_t work_size() const { return chirp_.empty() ? length_ : length_ + size_; }

  // In place over work[0, length): y[k] = sum over n of x[n] * exp(-2 pi i k n / length).
  void Forward(Complex* work) const;
  // The same with +2 pi i and divided by the length.
  void Inverse(Complex* work) const;

 private:
  void Halving(Complex* data) const;

  int64_t length_;
  int64_t size_ = 1;             // of the power of two transformed
  std::vector<Complex> roots_;   // exp(-2 pi i k / size), k < size / 2
  std::vector<Complex> chirp_;   // exp(-pi i n^2 / length); empty for a power of two
  std::vector<Complex> filter_;  // the transform of the chirp's conjugate, wrapped around
};

}  // namespace quant
