#include "libquant/calib/ranges_file.h"

#include <charconv>
#include <cmath>

#include "libquant/base/file.h"
#include "libquant/report/json.h"

namespace quant {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

// Counts as words, runs of equal ones as LENGTH*COUNT.
std::string BinsText(const std::vector<int64_t>& bins) {
  std::string text;
  for (size_t i = 0; i < bins.size();) {
    size_t end = i + 1;
    while (end < bins.size() && bins[end] == bins[i]) ++end;
    if (!text.empty()) text += ' ';
    if (end - i > 1) text += fmt::format("{}*", end - i);
    text += std::to_string(bins[i]);
    i = end;
  }
  return text;
}

StatusOr<std::vector<int64_t>> ParseBins(std::string_view text) {
  std::vector<int64_t> bins;
  constexpr auto kMost = static_cast<int64_t>(2 * ValueHistogram::kSide);
  const auto number = [&](int64_t& out) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    const bool good = error == std::errc();
    text.remove_prefix(static_cast<size_t>(stop - text.data()));
    return good && out >= 0;
  };
  while (!text.empty()) {
    int64_t run = 1, count = 0;
    if (!number(count)) return DataError("bins are no list of counts");
    if (!text.empty() && text.front() == '*') {
      text.remove_prefix(1);
      run = count;
      if (!number(count)) return DataError("bins are no list of counts");
    }
    if (run < 1 || run > kMost - static_cast<int64_t>(bins.size()))
      return DataError("there are more than {} bins", kMost);
    bins.insert(bins.end(), static_cast<size_t>(run), count);
    if (!text.empty() && text.front() != ' ') return DataError("bins are no list of counts");
    if (!text.empty()) text.remove_prefix(1);
  }
  return bins;
}

StatusOr<double> Number(const Json& object, const std::string& key) {
  const std::optional<double> number = object.At(key).Number();
  if (!number || !std::isfinite(*number)) return DataError("'{}' is no number", key);
  return *number;
}

StatusOr<int64_t> Whole(const Json& object, const std::string& key) {
  ASSIGN_OR_RETURN(const double number, Number(object, key));
  constexpr double kMost = 9007199254740992;  // 2^53: above, not every whole number is told from the next
  if (number != std::floor(number) || std::fabs(number) > kMost) return DataError("'{}' is no whole number", key);
  return static_cast<int64_t>(number);
}

StatusOr<float> Float(const Json& object, const std::string& key) {
  ASSIGN_OR_RETURN(const double number, Number(object, key));
  const auto value = static_cast<float>(number);
  if (!std::isfinite(value)) return DataError("'{}' is beyond float32", key);
  return value;
}

StatusOr<std::pair<CalibratedValue, ValueRange>> ParseValue(const Json& json) {
  CalibratedValue value;
  ValueHistogram::Parts parts;
  ASSIGN_OR_RETURN(value.samples, Whole(json, "samples"));
  ASSIGN_OR_RETURN(parts.zeros, Whole(json, "zeros"));
  ASSIGN_OR_RETURN(parts.nans, Whole(json, "nan"));
  ASSIGN_OR_RETURN(parts.infinities, Whole(json, "infinite"));
  ASSIGN_OR_RETURN(parts.min, Float(json, "min"));
  ASSIGN_OR_RETURN(parts.max, Float(json, "max"));
  ASSIGN_OR_RETURN(const int64_t exponent, Whole(json, "exponent"));
  if (exponent < ValueHistogram::kLeastExponent || exponent > 128) return DataError("'exponent' of {}", exponent);
  parts.exponent = static_cast<int>(exponent);
  const std::optional<std::string> bins = json.At("bins").String();
  if (!bins) return DataError("'bins' is no text");
  ASSIGN_OR_RETURN(parts.bins, ParseBins(*bins));
  ASSIGN_OR_RETURN(value.histogram, ValueHistogram::Of(std::move(parts)));
  if (!json.At("average").is_null()) {
    const auto average = json.At("average").Items();
    if (average.size() != 2 || !average[0].second.Number() || !average[1].second.Number())
      return DataError("'average' is no pair");
    value.average_min = *average[0].second.Number();
    value.average_max = *average[1].second.Number();
  }
  for (const auto& [key, number] : json.At("channel_absmax").Items()) {
    const std::optional<double> most = number.Number();
    if (!most || !(*most >= 0) || !std::isfinite(static_cast<float>(*most)))
      return DataError("'channel_absmax' holds no magnitudes");
    value.channel_absmax.push_back(static_cast<float>(*most));
  }
  ValueRange range;
  range.channel_absmax = value.channel_absmax;
  if (value.histogram.count() == 0) return std::pair(std::move(value), std::move(range));
  const auto ends = json.At("range").Items();
  if (ends.size() != 2 || !ends[0].second.Number() || !ends[1].second.Number())
    return DataError("'range' is no pair of numbers");
  range.min = static_cast<float>(*ends[0].second.Number());
  range.max = static_cast<float>(*ends[1].second.Number());
  if (!std::isfinite(range.min) || !std::isfinite(range.max) || range.min > range.max) {
    return DataError("'range' [{}, {}] is none", range.min, range.max);
  }
  return std::pair(std::move(value), std::move(range));
}

Json Pair(double a, double b) { return Json::Array().Append(a).Append(b); }

}  // namespace

std::string RangesText(const Calibration& calibration) {
  const RangeOptions& options = calibration.options;
  Json out = Json::Object();
  out.Set("ranges_version", kRangesVersion).Set("method", NameOf(options.method));
  if (options.method == RangeMethod::kPercentile) out.Set("percentile", options.percentile);
  if (options.method == RangeMethod::kMovingAverage) out.Set("momentum", options.momentum);
  out.Set("bits", options.bits).Set("samples", calibration.samples);
  Json values = Json::Object();
  for (const auto& [name, value] : calibration.values) {
    const ValueHistogram& h = value.histogram;
    Json row = Json::Object();
    if (h.count() > 0) {
      const ValueRange range = calibration.RangeOfValue(value);
      row.Set("range", Pair(range.min, range.max));
    }
    row.Set("min", h.min()).Set("max", h.max()).Set("samples", value.samples).Set("zeros", h.zeros());
    row.Set("nan", h.nans()).Set("infinite", h.infinities());
    if (options.method == RangeMethod::kMovingAverage) row.Set("average", Pair(value.average_min, value.average_max));
    row.Set("exponent", h.exponent()).Set("bins", BinsText(h.bins()));
    if (!value.channel_absmax.empty()) {
      Json channels = Json::Array();
      for (const float x : value.channel_absmax) channels.Append(static_cast<double>(x));
      row.Set("channel_absmax", channels);
    }
    values.Set(name, row);
  }
  return out.Set("values", values).Text();
}

StatusOr<RangesFile> ParseRanges(const std::string& text) {
  const Json json = Json::Parse(text);
  if (json.At("ranges_version").is_null()) return DataError("this is no file of ranges");
  ASSIGN_OR_RETURN(const int64_t version, Whole(json, "ranges_version"));
  if (version != kRangesVersion)
    return Unsupported("ranges of version {}; this program reads {}", version, kRangesVersion);
  RangesFile out;
  RangeOptions& options = out.calibration.options;
  const StatusOr<RangeMethod> method = RangeMethodOf(json.At("method").String().value_or(""));
  if (!method.ok()) return DataError("{}", Message(method.status()));
  options.method = *method;
  if (options.method == RangeMethod::kPercentile) {
    ASSIGN_OR_RETURN(options.percentile, Number(json, "percentile"));
    if (options.percentile <= 0 || options.percentile > 100) return DataError("'percentile' of {}", options.percentile);
  }
  if (options.method == RangeMethod::kMovingAverage) {
    ASSIGN_OR_RETURN(options.momentum, Number(json, "momentum"));
  }
  ASSIGN_OR_RETURN(const int64_t bits, Whole(json, "bits"));
  if (bits != 8 && bits != 16) return DataError("'bits' of {}", bits);
  options.bits = static_cast<int>(bits);
  ASSIGN_OR_RETURN(out.calibration.samples, Whole(json, "samples"));
  for (const auto& [name, row] : json.At("values").Items()) {
    auto parsed = ParseValue(row);
    if (!parsed.ok()) return DataError("value {}: {}", name, Message(parsed.status()));
    auto& [value, range] = *parsed;
    if (value.histogram.count() > 0) out.ranges[name] = std::move(range);
    out.calibration.values[name] = std::move(value);
  }
  if (out.calibration.values.empty()) return DataError("it holds no values");
  return out;
}

bool NamesRanges(const std::string& path) { return path.ends_with(".json"); }

StatusOr<RangesFile> ReadRanges(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMostBytes));
  StatusOr<RangesFile> file = ParseRanges(text);
  if (!file.ok()) return Status(file.status().code(), fmt::format("{}: {}", path, Message(file.status())));
  return file;
}

}  // namespace quant
