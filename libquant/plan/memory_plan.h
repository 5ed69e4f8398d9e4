// Whether a model fits a device, by arithmetic on sizes alone:
//
//   need = weights + KV cache + peak activations        fits when need x (1 + margin) <= what the device has for models
//
// Sizes may come from flags of any value: what passes 64 bits is a UsageError, never a wrap-around.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/device.h"

namespace quant {

// Published rules of thumb, nothing measured on the model at hand.
enum class ExpectedLoss { kNone, kInt8, kInt4, kInt4Groups, kUnknown };
std::string_view TextOf(ExpectedLoss loss);  // "1 to 2 %"

// One way of storing the weights, and what the model then needs. Precisions are kept from the most precise on.
struct Precision {
  std::string name;  // "int4, groups of 32"
  ExpectedLoss loss = ExpectedLoss::kNone;
  int64_t weight_bytes = 0;
  std::optional<int64_t> cache_bytes;       // nullopt: there is none, or it is not known
  std::optional<int64_t> activation_bytes;  // nullopt: not known, as there is no model
  int64_t total_bytes = 0;
  int64_t with_margin = 0;
};

// Fills in the totals. `margin` is a part: 0.2 for 20 %.
Status AddUp(Precision& precision, double margin);

// Weights of a number of parameters at `bits` each, and one scale of `scale_bits` for each group of `group` where
// that is above 0; rounded up to whole bytes.
StatusOr<int64_t> WeightBytes(int64_t parameters, int64_t bits, int64_t group, int64_t scale_bits);

// A decoder's cache:   2 x layers x batch x sequence x kv_heads x (hidden / heads) x bytes of an element
struct CacheSpec {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t sequence = 0;
  int64_t batch = 1;
  int64_t bits = 16;  // of an element
};
StatusOr<int64_t> CacheBytes(const CacheSpec& spec);

// "7e9", "125000000": a whole number of at least 1.
StatusOr<int64_t> ParseCount(std::string_view option, std::string_view text);

enum class Fit { kFits, kAtBest, kNo };
std::string_view TextOf(Fit fit);  // "fits", "at best", "no"
Fit FitOf(int64_t with_margin, const Device& device);

// The most precise way that fits a device in any case, else at best, else none.
struct Choice {
  std::optional<size_t> precision;  // index
  Fit fit = Fit::kNo;
};
Choice Choose(const std::vector<Precision>& precisions, const Device& device);

// The choice as a sentence with its reason.
std::string Explain(const Choice& choice, const std::vector<Precision>& precisions, const Device& device);

// "14.00 GB": powers of 1000, as memory of devices and sizes of models are told.
std::string DecimalBytes(int64_t bytes);

}  // namespace quant
