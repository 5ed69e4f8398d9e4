// The options of one tool: declared once, bound to the tool's own variables, and from the same rows come the parser,
// the help text and the messages. Only args.cc sees CLI11, whose headers are slow to compile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

// Where a value given on the command line goes. A vector takes an option as often as it is given.
using ArgTarget = std::variant<bool*, std::string*, std::optional<std::string>*, std::vector<std::string>*, int64_t*,
                               std::optional<int64_t>*, std::optional<double>*, double*>;

struct ArgRow {
  std::string name;         // "--output"; "MODEL" for a positional argument
  std::string short_name;   // "-o", may be empty
  std::string placeholder;  // what the value is, "FILE"; empty for a flag
  std::string help;
  std::vector<std::string> choices;  // when not empty, the only values
  std::string group;                 // heading it stands under
  bool required = false;
  bool in_usage = false;
  ArgTarget target;
};

class Args {
 public:
  explicit Args(std::string tool) : tool_(std::move(tool)) {}

  // Heading of the options declared from now on.
  void Group(std::string heading) { group_ = std::move(heading); }
  void Positional(const std::string& name, std::string* target, std::string help);
  // One that may be left out.
  void OptionalPositional(const std::string& name, std::string* target, std::string help);
  // `names` is "--long" or "-s,--long".
  // One or more words, after all other positional arguments.
  void Positionals(const std::string& name, std::vector<std::string>* target, std::string help);
  void Flag(const std::string& names, bool* target, std::string help);
  void Value(const std::string& names, std::string placeholder, ArgTarget target, std::string help);
  void Choice(const std::string& names, std::vector<std::string> choices, std::string* target, std::string help);
  // The option declared last is named in the usage line: it is given as a rule.
  void InUsage() { rows_.back().in_usage = true; }

  const std::vector<ArgRow>& rows() const { return rows_; }
  // "usage: nibble quantize MODEL -o OUT [options]".
  std::string Usage() const;

  // UsageError for anything that does not fit the rows; unknown options name the nearest one.
  Status Parse(const std::vector<std::string>& words);
  // After Parse: whether the user gave it.
  bool Given(std::string_view name) const;
  // What is in force, defaults included: options by their names without dashes. Those that no result depends on
  // (output of reports, threads) and those that are not set are left out.
  std::vector<std::pair<std::string, std::string>> Resolved() const;

 private:
  ArgRow& Add(const std::string& names, ArgTarget target, std::string help);
  std::string tool_;
  std::string group_ = "Options";
  std::vector<ArgRow> rows_;
  std::vector<std::string> given_;
};

// Text in lines of at most `width` columns; lines after the first are indented.
std::string Wrapped(const std::string& text, size_t indent, size_t width = 100);

}  // namespace quant
