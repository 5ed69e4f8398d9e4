// docs/ops.md says what the definitions say: which operators have a kernel, which run through the function body by
// which ONNX defines them, and which are left out, with the reason. NIBBLE_REBASE=1 rewrites it.
#include <onnx/defs/schema.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "libquant/base/status.h"
#include "libquant/model/check.h"
#include "libquant/ops/find_kernel.h"
#include "tests/catch.h"
#include "tests/conformance/excluded.h"

namespace quant {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string Kernels(const std::string& domain) {
  std::map<std::string, std::string> rows;
  for (const OpDef* op : AllOps()) {
    if (op->domain != domain) continue;
    std::string since;
    for (int64_t version : op->since) since += (since.empty() ? "" : ", ") + std::to_string(version);
    const std::string name(op->name);
    rows[name] = fmt::format("| {} | {} | {} |\n", name, since, op->summary);
  }
  std::string out = "| operator | opsets with a new definition that the kernel knows | what it does |\n|---|---|---|\n";
  for (const auto& row : rows) out += row.second;
  return out;
}

// Operators of ONNX's own domain without a kernel: those with a function body, and the rest.
void SortRest(std::set<std::string>& by_body, std::set<std::string>& rest) {
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (!schema.domain().empty() || schema.deprecated()) continue;
    if (FindKernel("", schema.Name(), NewestOpset()) != nullptr) continue;
    (schema.HasFunction() || schema.HasContextDependentFunction() ? by_body : rest).insert(schema.Name());
  }
}

std::string Document() {
  std::set<std::string> by_body, rest;
  SortRest(by_body, rest);
  const std::map<std::string, std::string> excluded = ReadExcluded();
  std::string out =
      "# Operators\n\nWritten from the operators' definitions by `model_test` with `NIBBLE_REBASE=1`.\n\n## "
      "ai.onnx\n\n" +
      Kernels("") + "\nThrough the function body by which ONNX defines them:";
  for (const std::string& name : by_body) out += (name == *by_body.begin() ? " " : ", ") + name;
  out += ".\n\n## com.microsoft\n\n" + Kernels("com.microsoft") +
         "\n## Left out\n\n| operator or domain | why |\n|---|---|\n";
  for (const auto& [name, why] : excluded) out += fmt::format("| {} | {} |\n", name, why);
  return out;
}

TEST_CASE("docs/ops.md is what the definitions say") {
  const std::string path = NIBBLE_SOURCE_DIR "/docs/ops.md";
  const std::string document = Document();
  if (std::getenv("NIBBLE_REBASE") != nullptr) std::ofstream(path) << document;
  CHECK(Read(path) == document);
}

TEST_CASE("an operator of ONNX's domain without kernel and body is left out for a stated reason") {
  std::set<std::string> by_body, rest;
  SortRest(by_body, rest);
  const std::map<std::string, std::string> excluded = ReadExcluded();
  for (const std::string& name : rest) {
    INFO(name);
    CHECK(excluded.contains(name));
  }
}

}  // namespace
}  // namespace quant
