#include "tools/args.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

#include "libquant/base/nearest_hint.h"

namespace quant {
namespace {

constexpr int kMostWords = 1 << 20;

std::string Joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : between) + w;
  return out;
}

Status SetInt(const std::string& name, const std::string& text, int64_t* out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  if (error != std::errc() || stop != end) return UsageError("{} takes a whole number, not '{}'", name, text);
  return OkStatus();
}

Status SetDouble(const std::string& name, const std::string& text, double* out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  if (error != std::errc() || stop != end || !std::isfinite(*out)) {
    return UsageError("{} takes a number, not '{}'", name, text);
  }
  return OkStatus();
}

// Puts one given value where its row says.
struct SetTarget {
  const std::string& name;
  const std::string& text;
  Status operator()(bool* out) const {
    *out = true;
    return OkStatus();
  }
  Status operator()(std::string* out) const {
    *out = text;
    return OkStatus();
  }
  Status operator()(std::optional<std::string>* out) const {
    *out = text;
    return OkStatus();
  }
  Status operator()(std::vector<std::string>* out) const {
    out->push_back(text);
    return OkStatus();
  }
  Status operator()(int64_t* out) const { return SetInt(name, text, out); }
  Status operator()(std::optional<int64_t>* out) const { return SetInt(name, text, &out->emplace()); }
  Status operator()(double* out) const { return SetDouble(name, text, out); }
  Status operator()(std::optional<double>* out) const { return SetDouble(name, text, &out->emplace()); }
};

bool IsFlag(const ArgRow& row) { return std::holds_alternative<bool*>(row.target); }
bool IsPositional(const ArgRow& row) { return row.name[0] != '-'; }
bool IsRepeatable(const ArgRow& row) { return std::holds_alternative<std::vector<std::string>*>(row.target); }

Status Store(const ArgRow& row, const std::vector<std::string>& values) {
  if (values.size() > 1 && !IsRepeatable(row)) return UsageError("{} is given {} times", row.name, values.size());
  for (const std::string& value : values) {
    if (!row.choices.empty() && std::find(row.choices.begin(), row.choices.end(), value) == row.choices.end()) {
      return UsageError("{} takes {}, not '{}'", row.name, Joined(row.choices, ", "), value);
    }
    RETURN_IF_ERROR(std::visit(SetTarget{row.name, value}, row.target));
  }
  return OkStatus();
}

}  // namespace

std::string Wrapped(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\n') {
      out += "\n" + std::string(indent, ' ');
      column = indent;
      ++i;
      continue;
    }
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" \n", i), text.size());
    if (column > indent && column + 1 + (end - i) > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(text, i, end - i);
    column += end - i;
    i = end;
  }
  return out;
}

ArgRow& Args::Add(const std::string& names, ArgTarget target, std::string help) {
  ArgRow row;
  const size_t comma = names.find(',');
  row.name = comma == std::string::npos ? names : names.substr(comma + 1);
  if (comma != std::string::npos) row.short_name = names.substr(0, comma);
  row.help = std::move(help);
  row.group = group_;
  row.target = target;
  return rows_.emplace_back(std::move(row));
}

void Args::Positional(const std::string& name, std::string* target, std::string help) {
  ArgRow& row = Add(name, target, std::move(help));
  row.group = "";
  row.required = row.in_usage = true;
}

void Args::OptionalPositional(const std::string& name, std::string* target, std::string help) {
  Positional(name, target, std::move(help));
  rows_.back().required = false;
}

void Args::Positionals(const std::string& name, std::vector<std::string>* target, std::string help) {
  ArgRow& row = Add(name, target, std::move(help));
  row.group = "";
  row.required = row.in_usage = true;
}

void Args::Flag(const std::string& names, bool* target, std::string help) { Add(names, target, std::move(help)); }

void Args::Value(const std::string& names, std::string placeholder, ArgTarget target, std::string help) {
  Add(names, target, std::move(help)).placeholder = std::move(placeholder);
}

void Args::Choice(const std::string& names, std::vector<std::string> choices, std::string* target, std::string help) {
  ArgRow& row = Add(names, target, std::move(help));
  row.placeholder = "{" + Joined(choices, ",") + "}";
  row.choices = std::move(choices);
}

std::string Args::Usage() const {
  std::string text = "usage: nibble " + tool_;
  for (const ArgRow& row : rows_) {
    if (!row.in_usage) continue;
    const std::string& shown = row.short_name.empty() ? row.name : row.short_name;
    text += " " + (IsPositional(row) ? row.name : shown + " " + row.placeholder);
  }
  return text + " [options]";
}

Status Args::Parse(const std::vector<std::string>& words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<std::vector<std::string>> values(rows_.size());
  std::vector<CLI::Option*> options;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const ArgRow& row = rows_[i];
    const std::string names = row.short_name.empty() ? row.name : row.short_name + "," + row.name;
    options.push_back(IsFlag(row) ? app.add_flag(names)
                                  : app.add_option(names, values[i])
                                        ->expected(1, IsPositional(row) && IsRepeatable(row) ? kMostWords : 1)
                                        ->allow_extra_args(IsPositional(row) && IsRepeatable(row))
                                        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
  }
  try {
    // CLI11 takes its words from the back.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string text = e.what();
    return UsageError("{} needs a value", text.substr(0, text.find(':')));
  } catch (const CLI::Error& e) {
    return UsageError("{}", e.what());
  }
  std::vector<std::string> known;
  for (const ArgRow& row : rows_) {
    if (!IsPositional(row)) known.push_back(row.name);
  }
  const std::vector<std::string> rest = app.remaining();
  const auto option = std::find_if(rest.begin(), rest.end(), [](const auto& w) { return w.size() > 1 && w[0] == '-'; });
  if (option != rest.end()) {
    const std::string word = option->substr(0, option->find('='));
    return UsageError("unknown option {}{}", word, NearestHint(word, known));
  }
  if (!rest.empty()) return UsageError("unexpected argument '{}'", rest[0]);
  for (size_t i = 0; i < rows_.size(); ++i) {
    const bool given = options[i]->count() > 0;
    if (given) given_.push_back(rows_[i].name);
    if (IsFlag(rows_[i])) values[i].assign(given ? 1 : 0, "");
    RETURN_IF_ERROR(Store(rows_[i], values[i]));
    if (rows_[i].required && !given) return UsageError("{} is missing\n{}", rows_[i].name, Usage());
  }
  return OkStatus();
}

bool Args::Given(std::string_view name) const { return std::find(given_.begin(), given_.end(), name) != given_.end(); }

namespace {

// An option's value as text; empty when it has none.
struct ShowTarget {
  std::string operator()(const bool* on) const { return *on ? "yes" : ""; }
  std::string operator()(const std::string* text) const { return *text; }
  std::string operator()(const std::vector<std::string>* list) const { return Joined(*list, ", "); }
  template <typename T>
  std::string operator()(const std::optional<T>* value) const {
    return *value ? fmt::format("{}", **value) : "";
  }
  template <typename T>
  std::string operator()(const T* value) const {
    return fmt::format("{}", *value);
  }
};

}  // namespace

std::vector<std::pair<std::string, std::string>> Args::Resolved() const {
  const std::set<std::string> left_out = {"--threads", "--json", "--report", "--quiet"};
  std::vector<std::pair<std::string, std::string>> out;
  for (const ArgRow& row : rows_) {
    if (left_out.contains(row.name)) continue;
    std::string value = std::visit([](auto* target) { return ShowTarget()(target); }, row.target);
    if (value.empty()) continue;
    out.emplace_back(IsPositional(row) ? row.name : row.name.substr(2), std::move(value));
  }
  return out;
}

}  // namespace quant
