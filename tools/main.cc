// The `nibble` executable: finds the tool, parses its options, runs it, and turns its status into an exit code.
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "libquant/base/file.h"
#include "libquant/base/nearest_hint.h"
#include "libquant/base/version.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
#define NIBBLE_TOOL(name) std::unique_ptr<Tool> Make##name();
#include "tools/tools.def"
#undef NIBBLE_TOOL

namespace {

std::vector<std::unique_ptr<Tool>> AllTools() {
  std::vector<std::unique_ptr<Tool>> tools;
#define NIBBLE_TOOL(name) tools.push_back(Make##name());
#include "tools/tools.def"
#undef NIBBLE_TOOL
  return tools;
}

void Print(std::FILE* to, const std::string& text) { std::fwrite(text.data(), 1, text.size(), to); }

std::string Overview(const std::vector<std::unique_ptr<Tool>>& tools) {
  std::string text =
      "usage: nibble TOOL MODEL [options]\n\n"
      "Prepares exported ONNX models for devices: quantizes their weights and measures what that costs.\n\nTools:\n";
  for (const auto& tool : tools) {
    text += fmt::format("  {:<11} {}\n", tool->Info().name, tool->Info().summary);
  }
  return text +
         "\n`nibble TOOL --help` has a tool's options and examples; `nibble --version` the version.\n\n"
         "Exit codes: 0 done; 1 a gate or comparison was not met; 2 bad usage; 3 unreadable or invalid model or\n"
         "data; 4 something not supported; 5 output could not be written; 70 a bug in Nibble.\n";
}

int Fail(const Status& status) {
  Print(stderr, fmt::format("nibble: error: {}\n", Printable(Message(status))));
  if (ExitCode(status) == 70) Print(stderr, "nibble: this is a bug in Nibble, not in your model; please report it\n");
  return ExitCode(status);
}

bool AsksForHelp(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return false;
    if (word == "-h" || word == "--help") return true;
  }
  return false;
}

int RunTool(Tool& tool, const std::vector<std::string>& words) {
  Args args{std::string(tool.Info().name)};
  tool.Declare(args);
  if (AsksForHelp(words)) {
    Print(stdout, ToolHelp(tool.Info(), args));
    return 0;
  }
  Status status = args.Parse(words);
  if (status.ok()) status = tool.Run(args);
  // What was printed must have arrived: a report cut short by a full disk is no success.
  if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
    status = OutputError("standard output could not be written");
  }
  return status.ok() ? 0 : Fail(status);
}

int Main(const std::vector<std::string>& words) {
  const std::vector<std::unique_ptr<Tool>> tools = AllTools();
  if (words.empty()) {
    Print(stderr, Overview(tools));
    return 2;
  }
  if (words[0] == "-h" || words[0] == "--help" || words[0] == "help") {
    Print(stdout, Overview(tools));
    return 0;
  }
  if (words[0] == "--version") {
    Print(stdout, fmt::format("nibble {}\n", NibbleVersion()));
    return 0;
  }
  std::vector<std::string> names;
  for (const auto& tool : tools) {
    if (tool->Info().name == words[0]) return RunTool(*tool, {words.begin() + 1, words.end()});
    names.emplace_back(tool->Info().name);
  }
  const std::string hint = words[0][0] == '-' ? "" : NearestHint(words[0], names);
  return Fail(UsageError("there is no tool '{}'{}", words[0], hint.empty() ? "; `nibble --help` lists them" : hint));
}

}  // namespace
}  // namespace quant

int main(int argc, char** argv) {
  // Large blocks go back to the system when they are freed, instead of becoming holes among small ones.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  // A file larger than the process may write is a failed write then, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  quant::RemovePendingFilesOnSignal();
  try {
    return quant::Main({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::bad_alloc&) {
    std::fputs("nibble: error: out of memory\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nibble: error: unexpected: %s\nnibble: this is a bug in Nibble; please report it\n",
                 e.what());
  }
  return 70;
}
