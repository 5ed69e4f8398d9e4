#include "libquant/lint/finding.h"

namespace quant {

std::string_view NameOf(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      break;
  }
  return "note";
}

const std::vector<FindingKind>& FindingKinds() {
  static const std::vector<FindingKind> kinds = {
#define NIBBLE_FINDING(name, id, severity, about, next) {FindingId::k##name, id, Severity::severity, about, next},
#include "libquant/lint/findings.def"
#undef NIBBLE_FINDING
  };
  return kinds;
}

const FindingKind& KindOf(FindingId finding) { return FindingKinds()[static_cast<size_t>(finding)]; }

const FindingKind* FindFindingKind(std::string_view id) {
  for (const FindingKind& kind : FindingKinds()) {
    if (kind.id == id) return &kind;
  }
  return nullptr;
}

Finding Finding::Of(FindingId finding, std::string what, std::vector<std::string> where) {
  const FindingKind& kind = KindOf(finding);
  return {finding, kind.severity, std::move(what), std::move(where), std::string(kind.next)};
}

}  // namespace quant
