// JSON values for the tools' reports: keys keep their order, numbers are exact; infinities and NaN, which JSON
// lacks, are the strings "inf", "-inf" and "nan".
// A thin face over nlohmann/json, whose header is slow to compile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

class Json {
 public:
  Json();  // null
  ~Json();
  Json(const Json& other);
  Json& operator=(const Json& other);
  Json(Json&&) noexcept;
  Json& operator=(Json&&) noexcept;

  Json(bool value);
  Json(int value) : Json(static_cast<int64_t>(value)) {}
  Json(int64_t value);
  Json(double value);
  Json(const char* value) : Json(std::string_view(value)) {}
  Json(const std::string& value) : Json(std::string_view(value)) {}
  // Bytes that are no UTF-8 are replaced: names come from files.
  Json(std::string_view value);
  template <typename T>
  Json(const std::optional<T>& value) : Json() {
    if (value) *this = Json(*value);
  }
  template <typename T>
  Json(const std::vector<T>& values) : Json(Array()) {
    for (const T& v : values) Append(Json(v));
  }
  static Json Object();
  static Json Array();
  // The value that JSON text holds; null when it is no JSON.
  static Json Parse(const std::string& text);

  // Adds to an object (in order) or an array.
  Json& Set(const std::string& key, const Json& value);
  Json& Append(const Json& value);
  // Adds all keys of another object.
  Json& Merge(const Json& object);

  // A member of an object; null when there is none.
  Json At(const std::string& key) const;
  // The members of an object, or the entries of an array with empty names.
  std::vector<std::pair<std::string, Json>> Items() const;
  // A number, also one that JSON lacks and we write as a string; nullopt for anything else.
  std::optional<double> Number() const;
  std::optional<std::string> String() const;
  bool is_null() const;

  std::string Text() const;  // indented, ends with a newline
  std::string Line() const;  // on one line, ends with a newline

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quant
