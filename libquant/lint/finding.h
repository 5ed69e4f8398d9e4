// What `check` finds in a model: kinds with stable ids (findings.def), and single findings, an entry each however many
// nodes or weights it is about.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quant {

enum class Severity { kError, kWarning, kNote };
std::string_view NameOf(Severity severity);

enum class FindingId {
#define NIBBLE_FINDING(name, id, severity, about, next) k##name,
#include "libquant/lint/findings.def"
#undef NIBBLE_FINDING
};

struct FindingKind {
  FindingId finding;
  std::string_view id;
  Severity severity;
  std::string_view about;
  std::string_view next;
};

// In the order of reports.
const std::vector<FindingKind>& FindingKinds();
const FindingKind& KindOf(FindingId finding);
// Null when there is none of that id.
const FindingKind* FindFindingKind(std::string_view id);

struct Finding {
  FindingId finding;
  Severity severity = Severity::kNote;
  std::string what;                // a sentence without its full stop
  std::vector<std::string> where;  // nodes, values, operators or files; of many, the first come first
  std::string next;

  // With the kind's severity and advice.
  static Finding Of(FindingId finding, std::string what, std::vector<std::string> where = {});
};

}  // namespace quant
