#include "libquant/report/json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace quant {

using Ordered = nlohmann::ordered_json;

struct Json::Impl {
  Ordered value;
};

Json::Json() : impl_(std::make_unique<Impl>()) {}
Json::~Json() = default;
Json::Json(const Json& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
Json& Json::operator=(const Json& other) {
  if (this != &other) impl_ = std::make_unique<Impl>(*other.impl_);
  return *this;
}
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(Json&&) noexcept = default;

Json::Json(bool value) : Json() { impl_->value = value; }
Json::Json(int64_t value) : Json() { impl_->value = value; }
Json::Json(double value) : Json() {
  if (std::isfinite(value)) {
    impl_->value = value;
  } else {
    impl_->value = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
}
Json::Json(std::string_view value) : Json() { impl_->value = std::string(value); }

Json Json::Object() {
  Json out;
  out.impl_->value = Ordered::object();
  return out;
}
Json Json::Array() {
  Json out;
  out.impl_->value = Ordered::array();
  return out;
}
Json Json::Parse(const std::string& text) {
  Json out;
  Ordered parsed = Ordered::parse(text, nullptr, false);
  if (!parsed.is_discarded()) out.impl_->value = std::move(parsed);
  return out;
}

Json& Json::Set(const std::string& key, const Json& value) {
  impl_->value[key] = value.impl_->value;
  return *this;
}
Json& Json::Append(const Json& value) {
  impl_->value.push_back(value.impl_->value);
  return *this;
}
Json& Json::Merge(const Json& object) {
  for (const auto& [key, value] : object.impl_->value.items()) impl_->value[key] = value;
  return *this;
}

Json Json::At(const std::string& key) const {
  Json out;
  if (impl_->value.is_object() && impl_->value.contains(key)) out.impl_->value = impl_->value[key];
  return out;
}

std::vector<std::pair<std::string, Json>> Json::Items() const {
  std::vector<std::pair<std::string, Json>> out;
  if (!impl_->value.is_structured()) return out;
  const bool named = impl_->value.is_object();
  for (const auto& [key, value] : impl_->value.items()) {
    out.emplace_back(named ? key : "", Json());
    out.back().second.impl_->value = value;
  }
  return out;
}

std::optional<double> Json::Number() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (impl_->value.is_number()) return impl_->value.get<double>();
  if (impl_->value == "inf") return kInfinity;
  if (impl_->value == "-inf") return -kInfinity;
  if (impl_->value == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

std::optional<std::string> Json::String() const {
  if (!impl_->value.is_string()) return std::nullopt;
  return impl_->value.get<std::string>();
}

bool Json::is_null() const { return impl_->value.is_null(); }

std::string Json::Line() const { return impl_->value.dump(-1, ' ', false, Ordered::error_handler_t::replace) + "\n"; }

std::string Json::Text() const { return impl_->value.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n"; }

}  // namespace quant
