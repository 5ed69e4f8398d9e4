#include "libquant/plan/memory_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>

#include "libquant/base/checked.h"

namespace quant {
namespace {

constexpr double kTooLarge = 9223372036854775808.0;  // 2^63

Status TooLarge(std::string_view what) { return UsageError("{}: more bytes than 64 bits can count", what); }

// What the largest part is, and how it could be made smaller.
std::string Advice(const Precision& p) {
  const int64_t cache = p.cache_bytes.value_or(0), activations = p.activation_bytes.value_or(0);
  if (cache >= p.weight_bytes && cache >= activations) {
    return fmt::format("the KV cache alone is {}: a shorter sequence or an 8-bit cache helps most",
                       DecimalBytes(cache));
  }
  if (activations >= p.weight_bytes) {
    return fmt::format("activations alone are {}: smaller inputs or a smaller batch help most",
                       DecimalBytes(activations));
  }
  return fmt::format("the weights alone are {}: a smaller model is needed", DecimalBytes(p.weight_bytes));
}

}  // namespace

std::string_view TextOf(ExpectedLoss loss) {
  switch (loss) {
    case ExpectedLoss::kNone:
      return "next to none";
    case ExpectedLoss::kInt8:
      return "1 to 2 %";
    case ExpectedLoss::kInt4:
      return "3 to 5 %";
    case ExpectedLoss::kInt4Groups:
      return "2 to 3 %";
    case ExpectedLoss::kUnknown:
      break;
  }
  return "as it is now";
}

std::string_view TextOf(Fit fit) { return fit == Fit::kFits ? "fits" : fit == Fit::kAtBest ? "at best" : "no"; }

Status AddUp(Precision& p, double margin) {
  auto total = CheckedAdd(p.weight_bytes, p.cache_bytes.value_or(0));
  if (total) total = CheckedAdd(*total, p.activation_bytes.value_or(0));
  if (!total) return TooLarge(p.name);
  // long double holds every int64_t; the part of the margin is rounded up alone, so that no margin adds nothing.
  const long double extra = std::ceil(static_cast<long double>(*total) * static_cast<long double>(margin));
  const auto with_margin = extra < kTooLarge ? CheckedAdd(*total, static_cast<int64_t>(extra)) : std::nullopt;
  if (!with_margin) return TooLarge(p.name);
  p.total_bytes = *total;
  p.with_margin = *with_margin;
  return OkStatus();
}

StatusOr<int64_t> WeightBytes(int64_t parameters, int64_t bits, int64_t group, int64_t scale_bits) {
  // Whole bytes first, so that 64 bits last for as many parameters as there can be bytes.
  const auto whole = CheckedMul(parameters / 8, bits);
  if (!whole) return TooLarge("weights");
  auto bytes = CheckedAdd(*whole, CeilDiv(parameters % 8 * bits, 8));
  if (bytes && group > 0) {
    const auto scales = CheckedMul(CeilDiv(parameters, group), scale_bits / 8);
    bytes = scales ? CheckedAdd(*bytes, *scales) : std::nullopt;
  }
  if (!bytes) return TooLarge("weights");
  return *bytes;
}

StatusOr<int64_t> CacheBytes(const CacheSpec& s) {
  if (s.heads < 1 || s.kv_heads < 1 || s.hidden % s.heads != 0) {
    return UsageError("hidden size {} can't be divided among {} heads", s.hidden, s.heads);
  }
  if (s.heads % s.kv_heads != 0) {
    return UsageError("{} heads can't share {} key and value heads evenly", s.heads, s.kv_heads);
  }
  const std::array<int64_t, 7> factors = {2, s.layers, s.batch, s.sequence, s.kv_heads, s.hidden / s.heads, s.bits / 8};
  const auto bytes = CheckedProduct(factors);
  if (!bytes) return TooLarge("KV cache");
  return *bytes;
}

StatusOr<int64_t> ParseCount(std::string_view option, std::string_view text) {
  const char* end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, whole); error == std::errc() && stop == end) {
    if (whole >= 1) return whole;
    return UsageError("{} takes a number of 1 or more, not '{}'", option, text);
  }
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range || (error == std::errc() && stop == end && number >= kTooLarge)) {
    return UsageError("{} {}: that is more than 64 bits can count", option, text);
  }
  if (error != std::errc() || stop != end || !std::isfinite(number) || number < 1 || number != std::floor(number)) {
    return UsageError("{} takes a whole number of 1 or more, as in 7e9, not '{}'", option, text);
  }
  return static_cast<int64_t>(number);
}

Fit FitOf(int64_t with_margin, const Device& device) {
  if (with_margin <= device.memory) return Fit::kFits;
  return with_margin <= device.memory_at_best ? Fit::kAtBest : Fit::kNo;
}

Choice Choose(const std::vector<Precision>& precisions, const Device& device) {
  for (const Fit fit : {Fit::kFits, Fit::kAtBest}) {
    for (size_t i = 0; i < precisions.size(); ++i) {
      if (FitOf(precisions[i].with_margin, device) == fit) return {i, fit};
    }
  }
  return {};
}

std::string Explain(const Choice& choice, const std::vector<Precision>& precisions, const Device& device) {
  if (precisions.empty()) return "nothing to choose from";
  if (!choice.precision) {
    const auto least = std::min_element(precisions.begin(), precisions.end(),
                                        [](const auto& a, const auto& b) { return a.with_margin < b.with_margin; });
    return fmt::format("nothing fits. Even {} needs {} of {}; {}", least->name, DecimalBytes(least->with_margin),
                       DecimalBytes(device.memory_at_best), Advice(*least));
  }
  const Precision& p = precisions[*choice.precision];
  const bool surely = choice.fit == Fit::kFits;
  std::string out = fmt::format("{}, the most precise that fits", p.name);
  out += surely
             ? fmt::format(": it needs {} of {}", DecimalBytes(p.with_margin), DecimalBytes(device.memory))
             : fmt::format(" at best: it needs {}, the device surely has {}, at best {}", DecimalBytes(p.with_margin),
                           DecimalBytes(device.memory), DecimalBytes(device.memory_at_best));
  if (*choice.precision > 0 && surely) {
    const Precision& better = precisions[*choice.precision - 1];
    out += fmt::format(", {} would need {}", better.name, DecimalBytes(better.with_margin));
  }
  return out;
}

std::string DecimalBytes(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.995 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace quant
