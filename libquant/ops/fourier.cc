#include "libquant/ops/fourier.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace quant {
namespace {

// exp(-2 pi i numerator / denominator).
Complex Root(int64_t numerator, int64_t denominator) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(numerator) / static_cast<double>(denominator);
  return {std::cos(angle), -std::sin(angle)};
}

Complex Times(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

}  // namespace

Fourier::Fourier(int64_t length) : length_(length) {
  const bool power = (length & (length - 1)) == 0;
  while (size_ < (power ? length : 2 * length - 1)) size_ *= 2;
  for (int64_t k = 0; k < size_ / 2; ++k) roots_.push_back(Root(k, size_));
  if (power) return;
  filter_.resize(static_cast<size_t>(size_));
  int64_t square = 0;  // n * n mod 2 * length
  for (int64_t n = 0; n < length; ++n) {
    const Complex root = Root(square, 2 * length);
    chirp_.push_back(root);
    filter_[static_cast<size_t>(n)] = filter_[static_cast<size_t>((size_ - n) % size_)] = {root.re, -root.im};
    square = (square + 2 * n + 1) % (2 * length);
  }
  Halving(filter_.data());
}

void Fourier::Halving(Complex* data) const {
  for (int64_t i = 1, j = 0; i < size_; ++i) {  // j: i with its bits reversed
    int64_t bit = size_ / 2;
    for (; (j & bit) != 0; bit /= 2) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(data[i], data[j]);
  }
  for (int64_t half = 1; half < size_; half *= 2) {
    const int64_t step = size_ / (2 * half);
    for (int64_t begin = 0; begin < size_; begin += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        Complex &low = data[begin + k], &high = data[begin + k + half];
        const Complex turned = Times(high, roots_[static_cast<size_t>(k * step)]);
        high = {low.re - turned.re, low.im - turned.im};
        low = {low.re + turned.re, low.im + turned.im};
      }
    }
  }
}

void Fourier::Forward(Complex* work) const {
  if (chirp_.empty()) return Halving(work);
  Complex* padded = work + length_;
  for (int64_t n = 0; n < length_; ++n) padded[n] = Times(work[n], chirp_[static_cast<size_t>(n)]);
  for (int64_t n = length_; n < size_; ++n) padded[n] = {};
  Halving(padded);
  // Back with the conjugate's forward transform.
  for (int64_t k = 0; k < size_; ++k) {
    const Complex product = Times(padded[k], filter_[static_cast<size_t>(k)]);
    padded[k] = {product.re, -product.im};
  }
  Halving(padded);
  const double scale = 1 / static_cast<double>(size_);
  for (int64_t k = 0; k < length_; ++k) {
    work[k] = Times({padded[k].re * scale, -padded[k].im * scale}, chirp_[static_cast<size_t>(k)]);
  }
}

void Fourier::Inverse(Complex* work) const {
  for (int64_t i = 0; i < length_; ++i) work[i].im = -work[i].im;
  Forward(work);
  const auto length = static_cast<double>(length_);
  for (int64_t i = 0; i < length_; ++i) work[i] = {work[i].re / length, -work[i].im / length};
}

}  // namespace quant
