#include "libquant/search/sweep.h"

#include <cmath>

#include "libquant/model/load.h"
#include "libquant/search/sweep_report.h"
#include "tests/catch.h"
#include "tests/data/data_fixture.h"

using namespace quant;

namespace {

const std::string kMlp = std::string(NIBBLE_SOURCE_DIR) + "/tests/cli/models/mlp.onnx";

SweepGrid Grid(const std::string& yaml) {
  SweepGrid grid;
  const Status read = ReadSweepText(yaml, "sweep.yaml", grid);
  INFO(Message(read));
  REQUIRE(read.ok());
  FinishSweepGrid(grid);
  return grid;
}

std::string ErrorOf(const std::string& yaml) {
  SweepGrid grid;
  return Message(ReadSweepText(yaml, "s.yaml", grid));
}

SweepRow Row(const std::string& name, int64_t bytes, double sqnr, std::optional<double> accuracy = std::nullopt) {
  SweepRow row;
  row.name = name;
  row.bytes = bytes;
  row.measures = {{"sqnr", sqnr}, {"size.ratio", static_cast<double>(bytes) / 1000}};
  if (accuracy) {
    row.measures.emplace_back("accuracy", *accuracy);
    row.measures.emplace_back("accuracy.drop", (0.9 - *accuracy) * 100);
  }
  return row;
}

std::vector<std::string> Names(const std::vector<SweepConfig>& configs) {
  std::vector<std::string> out;
  for (const SweepConfig& c : configs) out.push_back(c.name);
  return out;
}

// A head of `count` configurations, one of them a double.
SweepHead Head(size_t count, Shard shard) {
  SweepHead head;
  head.title = "m.onnx";
  head.files = {{"model", "m.onnx", 10, "ab"}};
  for (size_t i = 0; i < count; ++i) {
    head.entries.push_back({fmt::format("c{}", i), "", i == 1 ? std::optional<size_t>(0) : std::nullopt});
  }
  head.shard = shard;
  head.key = SweepKey(head, "");
  return head;
}

SweepRow RowAt(size_t config) {
  SweepRow row = Row(fmt::format("c{}", config), 100 + static_cast<int64_t>(config), 0.1 * static_cast<double>(config));
  row.config = config;
  return row;
}

}  // namespace

TEST_CASE("a grid's order does not depend on how it was given") {
  const SweepGrid a = Grid("weights: [int8, int4]\ngroup-size: [channel, 128, 032]\nscheme: asymmetric\n");
  const SweepGrid b = Grid("group-size: [32, 128, channel, 32]\nweights: [int4, int8]\nscheme: [asymmetric]\n");
  CHECK(Names(ConfigsOf(a)) == Names(ConfigsOf(b)));
  CHECK(Names(ConfigsOf(a)) == std::vector<std::string>{"int4 g32 asymmetric", "int4 g128 asymmetric",
                                                        "int4 channel asymmetric", "int8 g32 asymmetric",
                                                        "int8 g128 asymmetric", "int8 channel asymmetric"});
  CHECK(ConfigsOf(Grid("")).size() == 24);
}

TEST_CASE("a grid's file says where it is wrong") {
  CHECK(ErrorOf("weights: int4\ngroup: 3\n").find("s.yaml:2:1: unknown key 'group'") == 0);
  CHECK(ErrorOf("weights: [int4, int5]\n").find("s.yaml:1:10: weights takes one of") == 0);
  CHECK(ErrorOf("skip-sets: [a]\n").find("s.yaml:1:12: skip-sets maps names") == 0);
  CHECK(ErrorOf("skip-sets: {a: []}\n").find("s.yaml:1:13: the skip set 'a' has no pattern") == 0);
  CHECK(ErrorOf("emit: qqd\n").find("s.yaml:1:1: emit takes one of") == 0);
  CHECK(ErrorOf("skip-sets: {none: [], 'a b': [x]}\n").find("s.yaml:1:") == 0);
}

TEST_CASE("configurations that make the same model are known before they are run, and so are those that can't be") {
  const Model model = *LoadModel(kMlp);
  const auto configs = *PlanSweep(model, Grid("weights: int4\ngroup-size: [16, 64, 128, channel]\nscheme: symmetric\n"));
  REQUIRE(configs.size() == 4);
  CHECK(configs[1].to_measure());
  CHECK(configs[2].same_as == size_t{1});
  CHECK(configs[3].same_as == size_t{1});
  const auto some = *PlanSweep(model, Grid("weights: int4\ngroup-size: [24, 32]\nscheme: symmetric\nemit: nbits\n"));
  CHECK(some[0].refused.find("MatMulNBits takes") != std::string::npos);
  CHECK(some[1].to_measure());
  const auto none = PlanSweep(model, Grid("skip: nothing_like_it\n"));
  REQUIRE_FALSE(none.ok());
  CHECK(ExitCode(none.status()) == 2);
}

TEST_CASE("the front holds what nothing beats") {
  const std::vector<SweepRow> rows = {Row("big", 300, 40),   Row("small", 100, 10), Row("beaten", 200, 9),
                                      Row("equal", 100, 10), Row("nan", 50, NAN),   Row("exact", 250, 40)};
  CHECK(ParetoFront(rows, "sqnr") == std::vector<size_t>{1, 5});
  CHECK(ParetoFront(rows, "accuracy").empty());
}

TEST_CASE("a recommendation is within the limits and says why") {
  const std::vector<SweepRow> rows = {Row("a", 100, 12, 0.85), Row("b", 200, 25, 0.895), Row("c", 300, 40, 0.9)};
  const auto chosen = [&](const SweepLimits& limits) { return Recommend(rows, limits); };
  CHECK(chosen({}).row == size_t{1});
  CHECK(chosen({}).reason.find("the smallest of the 2 with a drop of at most 1 point (no limit was given") !=
        std::string::npos);
  SweepLimits limits;
  limits.max_size_ratio = 0.25;
  CHECK(chosen(limits).row == size_t{1});
  CHECK(chosen(limits).reason.find("b: the most exact of the 2 with at most 25 % of the float bytes") == 0);
  limits.min_sqnr = 30;
  CHECK_FALSE(chosen(limits).row);
  CHECK(chosen(limits).reason.find("none of 3 has at most 25 % of the float bytes and an SQNR of at least 30 dB; the "
                                   "most exact within the size is b") == 0);
  limits = {};
  limits.max_bytes = 100;
  CHECK(chosen(limits).reason.find("a: the only one with at most 100 bytes") == 0);
  limits = {};
  limits.max_drop = 6;
  CHECK(chosen(limits).row == size_t{0});
}

TEST_CASE("results are taken up where they stopped, a torn line aside") {
  const TempFolder folder;
  const std::string path = folder / "r.jsonl";
  const SweepHead head = Head(4, {});
  const auto write = [&](const std::vector<size_t>& configs) {
    const auto file = SweepFile::Open(path, head, false);
    INFO(Message(file.status()));
    REQUIRE(file.ok());
    for (const size_t c : configs) REQUIRE((*file)->Append(RowAt(c)).ok());
    return (*file)->rows().size();
  };
  CHECK(write({0, 2, 3}) == 0);
  const std::string whole = ReadBytes(path);
  for (size_t cut = 0; cut < whole.size(); ++cut) {  // wherever it was stopped
    folder.Write("r.jsonl", whole.substr(0, cut));
    std::vector<size_t> rest = {0, 2, 3};
    const size_t held = (*SweepFile::Open(path, head, false))->rows().size();
    rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(held));
    write(rest);
    REQUIRE(ReadBytes(path) == whole);
  }
  CHECK((*ReadSweepResults(path)).rows[1].measures == RowAt(2).measures);

  const auto other = SweepFile::Open(path, Head(5, {}), false);
  REQUIRE_FALSE(other.ok());
  CHECK(ExitCode(other.status()) == 2);
  CHECK(Message(other.status()).find("holds results of another sweep") != std::string::npos);
  CHECK(ReadBytes(path) == whole);
  CHECK(SweepFile::Open(path, Head(5, {}), true).ok());

  folder.Write("notes.txt", "my notes\n");
  CHECK(ExitCode(SweepFile::Open(folder / "notes.txt", head, false).status()) == 3);
  CHECK(ReadBytes(folder / "notes.txt") == "my notes\n");
  const auto first = SweepFile::Open(path, head, true);
  CHECK(Message(SweepFile::Open(path, head, false).status()).find("another sweep is writing") != std::string::npos);
}

TEST_CASE("shards merge into the sweep of one process") {
  const auto part = [](int64_t index, int64_t count) {
    SweepResults out{Head(6, {index, count}), {}};
    for (const size_t c : out.head.Mine()) out.rows.push_back(RowAt(c));
    return out;
  };
  const SweepResults one = part(1, 1), a = part(1, 2), b = part(2, 2);
  CHECK(a.rows.size() + b.rows.size() == one.rows.size());
  const auto merged = MergeShards({b, a}, {"b", "a"});
  REQUIRE(merged.ok());
  CHECK(RenderReport(SweepReport(*merged, {}), ReportFormat::kJson) ==
        RenderReport(SweepReport(one, {}), ReportFormat::kJson));
  const auto error = [](std::vector<SweepResults> parts) {
    return Message(MergeShards(std::move(parts), {"x", "y"}).status());
  };
  CHECK(error({a}) == "shards are missing: 2/2");
  CHECK(error({a, a}) == "x and y are both shard 1/2");
  CHECK(error({a, part(1, 3)}) == "x is a shard of 2, y one of 3");
  SweepResults torn = b;
  torn.rows.pop_back();
  CHECK(error({a, torn}).find("y is not finished: 1 of 2 configurations") == 0);
  SweepResults other = b;
  other.head.key = "c";
  CHECK(error({a, other}).find("x and y are of different sweeps") == 0);
}

TEST_CASE("a shard is given or told by the engine") {
  using Variables = std::vector<std::pair<std::string, std::string>>;
  const auto shard = [](const std::string& text, const Variables& variables) {
    const auto found = ParseShard(text, [&](const std::string& name) -> std::optional<std::string> {
      for (const auto& [key, value] : variables) {
        if (key == name) return value;
      }
      return std::nullopt;
    });
    return found.ok() ? found->Text() : Message(found.status());
  };
  CHECK(shard("2/8", {}) == "2/8");
  for (const char* wrong : {"0/3", "4/3", "1/0", "x", "1/2/3", "-1/2", "", "1/", "/2"}) {
    CHECK(shard(wrong, {}).find("--shard") == 0);
  }
  CHECK(shard("auto", {{"NIBBLE_SHARD", "3/4"}, {"CI_NODE_INDEX", "1"}}) == "3/4");
  CHECK(shard("auto", {{"SLURM_ARRAY_TASK_ID", "7"}, {"SLURM_ARRAY_TASK_MIN", "5"}, {"SLURM_ARRAY_TASK_COUNT", "4"}}) ==
        "3/4");
  CHECK(shard("auto", {{"SLURM_ARRAY_TASK_ID", "4"},
                       {"SLURM_ARRAY_TASK_MIN", "0"},
                       {"SLURM_ARRAY_TASK_STEP", "2"},
                       {"SLURM_ARRAY_TASK_COUNT", "3"}}) == "3/3");
  CHECK(shard("auto/4", {{"JOB_COMPLETION_INDEX", "0"}}) == "1/4");
  CHECK(shard("auto", {{"JOB_COMPLETION_INDEX", "3"}, {"NIBBLE_SHARD_COUNT", "4"}}) == "4/4");
  CHECK(shard("auto", {{"JOB_COMPLETION_INDEX", "3"}}).find("NIBBLE_SHARD_COUNT is not set") != std::string::npos);
  CHECK(shard("auto", {{"CI_NODE_INDEX", "2"}, {"CI_NODE_TOTAL", "5"}}) == "2/5");
  CHECK(shard("auto", {}).find("no engine has said") != std::string::npos);
}
