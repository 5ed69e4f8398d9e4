// MelWeightMatrix: triangles, evenly spread over the mel scale between two frequencies, that gather the bins of a
// onesided spectrum into bands: [dft_length / 2 + 1, num_mel_bins].
//   mel(f) = 2595 log10(1 + f / 700)
// Edge i of the bands is at bin floor((dft_length + 1) f / sample_rate), f being at mel(lower) + i * step, where step
// is 1 / (num_mel_bins + 2) of the range.
#include <cmath>

#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/float_view.h"

namespace quant {
namespace {

StatusOr<int64_t> PositiveInt(const Tensor& tensor) {
  ASSIGN_OR_RETURN(const auto values, IntsOf(tensor));
  if (values.size() != 1 || values[0] < 1) return DataError("{} where a positive number is wanted", ToString(values));
  return values[0];
}

StatusOr<double> OneFrequency(const Tensor& tensor) {
  if (tensor.size() != 1) return DataError("{} where a frequency is wanted", Describe(tensor));
  double value = 0;
  RETURN_IF_ERROR(ConvertFloats(tensor, &value));
  if (!(value > -700 && std::isfinite(value))) return DataError("a frequency of {}", value);
  return value;
}

double MelOf(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double HertzOf(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

struct MelInputs {
  int64_t bands, length, rate;
  double lower, upper;
  int64_t bins() const { return length / 2 + 1; }
};

StatusOr<MelInputs> ReadInputs(const KernelContext& context) {
  MelInputs in;
  ASSIGN_OR_RETURN(in.bands, PositiveInt(context.in(0)));
  ASSIGN_OR_RETURN(in.length, PositiveInt(context.in(1)));
  ASSIGN_OR_RETURN(in.rate, PositiveInt(context.in(2)));
  ASSIGN_OR_RETURN(in.lower, OneFrequency(context.in(3)));
  ASSIGN_OR_RETURN(in.upper, OneFrequency(context.in(4)));
  return in;
}

// The bin of edge i of in.bands + 2.
StatusOr<int64_t> EdgeOf(const MelInputs& in, int64_t i) {
  const double step = (MelOf(in.upper) - MelOf(in.lower)) / (static_cast<double>(in.bands) + 2);
  const double hertz = HertzOf(static_cast<double>(i) * step + MelOf(in.lower));
  const double bin = std::floor((static_cast<double>(in.length) + 1) * hertz / static_cast<double>(in.rate));
  if (!(bin >= 0 && bin < static_cast<double>(in.bins()))) {
    return DataError("a band's edge at {} Hz is outside the spectrum", hertz);
  }
  return static_cast<int64_t>(bin);
}

// Band `band` of the matrix: up from `left` to 1 at `centre`, down to `right`.
template <typename T>
void FillBand(int64_t left, int64_t centre, int64_t right, int64_t bands, T* column) {
  column[centre * bands] = static_cast<T>(1.0);
  for (int64_t j = left; j < centre; ++j) {
    column[j * bands] = static_cast<T>(static_cast<double>(j - left) / static_cast<double>(centre - left));
  }
  for (int64_t j = centre; j < right; ++j) {
    column[j * bands] = static_cast<T>(static_cast<double>(right - j) / static_cast<double>(right - centre));
  }
}

Status EvalMelWeightMatrix(KernelContext& context) {
  ASSIGN_OR_RETURN(const MelInputs in, ReadInputs(context));
  if (in.upper < in.lower) return DataError("bands from {} to {} Hz", in.lower, in.upper);
  const auto dtype = DTypeFromNumber(static_cast<int32_t>(context.attributes().Int("output_datatype", 1)));
  return WithNumber(dtype, [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, dtype, {in.bins(), in.bands}));
    for (T& v : y->template mutable_data<T>()) v = static_cast<T>(0.0);
    ASSIGN_OR_RETURN(int64_t left, EdgeOf(in, 0));
    ASSIGN_OR_RETURN(int64_t centre, EdgeOf(in, 1));
    for (int64_t band = 0; band < in.bands; ++band) {
      ASSIGN_OR_RETURN(const int64_t right, EdgeOf(in, band + 2));
      FillBand(left, centre, right, in.bands, y->template mutable_data<T>().data() + band);
      left = centre;
      centre = right;
    }
    return OkStatus();
  });
}

}  // namespace

const OpDef& MelWeightMatrixOp() {
  static const OpDef def = {.name = "MelWeightMatrix",
                            .since = {17},
                            .min_inputs = 5,
                            .eval = EvalMelWeightMatrix,
                            .role = Control{},
                            .exactness = Exactness::kTranscendental,
                            .summary = "Triangles that gather a spectrum's bins into mel bands"};
  return def;
}

}  // namespace quant
