#include "tools/tool.h"

namespace quant {
namespace {

constexpr size_t kHelpColumn = 28;

std::string OptionLine(const ArgRow& row) {
  std::string left =
      "  " + (row.short_name.empty() ? std::string(row.name[0] == '-' ? "    " : "") : row.short_name + ", ");
  left += row.name;
  if (!row.placeholder.empty()) left.append(" ").append(row.placeholder);
  if (left.size() + 2 > kHelpColumn) {
    left += '\n';
    left.append(kHelpColumn, ' ');
  } else {
    left.resize(kHelpColumn, ' ');
  }
  return left + Wrapped(row.help, kHelpColumn) + "\n";
}

}  // namespace

std::string ToolHelp(const ToolInfo& info, const Args& args) {
  std::string text = args.Usage() + "\n\n" + Wrapped(std::string(info.description), 0) + "\n";
  std::string group = "none yet";
  for (const ArgRow& row : args.rows()) {
    if (row.group != group) text += '\n';
    if (row.group != group && !row.group.empty()) text += fmt::format("{}:\n", row.group);
    group = row.group;
    text += OptionLine(row);
  }
  text += "\nExamples:\n";
  for (std::string_view example : info.examples) text += "  " + std::string(example) + "\n";
  return text;
}

}  // namespace quant
