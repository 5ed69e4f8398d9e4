// Who may include whom: the table of docs/architecture.md against the #include lines.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/catch.h"

namespace {

namespace fs = std::filesystem;
using Allowed = std::map<std::string, std::set<std::string>>;

const Allowed& Table() {
  static const Allowed table = {
      {"base", {}},
      {"ir", {}},
      {"numerics", {"ir"}},
      {"ops", {"ir", "numerics"}},
      {"model", {"ir", "ops"}},
      {"exec", {"ir", "ops"}},
      {"data", {"ir"}},
      {"calib", {"ir", "numerics", "ops", "exec", "data", "report"}},
      {"report", {"ir", "numerics"}},
      {"config", {"ir", "numerics"}},
      {"plan", {"ir", "config"}},
      {"verify", {"ir", "model", "exec", "data", "report"}},
      {"lint", {"ir", "ops", "model", "exec", "config"}},
      {"passes", {"ir", "ops", "numerics", "config", "model"}},
      {"search", {"ir", "numerics", "ops", "model", "exec", "data", "calib", "report", "config", "verify", "passes"}},
      {"tools",
       {"ir", "numerics", "ops", "model", "exec", "data", "calib", "report", "config", "plan", "verify", "lint", "passes",
        "search"}},
  };
  return table;
}

// "libquant/ir/graph.h" -> "ir"; "" for what is none of ours.
std::string FolderOf(const std::string& path) {
  const std::string first = path.substr(0, path.find('/'));
  if (first == "passes" || first == "tools") return first;
  if (first != "libquant") return "";
  const size_t begin = path.find('/') + 1;
  return path.substr(begin, path.find('/', begin) - begin);
}

bool IsSource(const fs::path& path) { return path.extension() == ".h" || path.extension() == ".cc"; }

std::vector<std::string> Sources() {
  std::vector<std::string> out;
  for (const char* top : {"libquant", "passes", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(NIBBLE_SOURCE_DIR) / top)) {
      if (IsSource(entry.path())) out.push_back(fs::relative(entry.path(), NIBBLE_SOURCE_DIR).string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> IncludesOf(const std::string& path, const std::string& form) {
  std::ifstream in(fs::path(NIBBLE_SOURCE_DIR) / path);
  const std::regex line_form(form);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    std::smatch m;
    if (std::regex_search(line, m, line_form)) out.push_back(m[1]);
  }
  return out;
}

}  // namespace

TEST_CASE("each folder includes only what the table allows") {
  REQUIRE(Sources().size() > 40);
  for (const std::string& source : Sources()) {
    const std::string from = FolderOf(source);
    INFO(source);
    REQUIRE(Table().count(from) == 1);
    for (const std::string& include : IncludesOf(source, R"(^#include "([^"]+)\")")) {
      const std::string to = FolderOf(include);
      INFO("includes " << include);
      // A folder's own files, base, and generated or list files without a folder of ours.
      CHECK((to.empty() || to == from || to == "base" || Table().at(from).count(to) == 1));
    }
  }
}

TEST_CASE("only model sees ONNX's types") {
  for (const std::string& source : Sources()) {
    INFO(source);
    if (FolderOf(source) != "model") CHECK(IncludesOf(source, R"(^#include [<"](onnx/[^>"]+)[>"])").empty());
  }
}

TEST_CASE("headers open with what they are for") {
  for (const std::string& source : Sources()) {
    if (fs::path(source).extension() != ".h") continue;
    std::ifstream in(fs::path(NIBBLE_SOURCE_DIR) / source);
    std::string first;
    std::getline(in, first);
    INFO(source);
    CHECK(first.substr(0, 3) == "// ");
  }
}
