#include "libquant/search/shard.h"

#include <charconv>
#include <cstdlib>

namespace quant {
namespace {

constexpr int64_t kMost = 1000000;

StatusOr<int64_t> Number(const std::string& what, const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) {
    return UsageError("{} is '{}', which is no whole number", what, text);
  }
  return value;
}

StatusOr<Shard> Checked(const std::string& what, int64_t index, int64_t count) {
  if (count < 1 || count > kMost || index < 1 || index > count) {
    return UsageError("{}: shard {} of {} does not exist", what, index, count);
  }
  return Shard{index, count};
}

StatusOr<Shard> Given(const std::string& what, const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) {
    return UsageError("{} takes INDEX/COUNT, from 1/COUNT to COUNT/COUNT, or auto, not '{}'", what, text);
  }
  ASSIGN_OR_RETURN(const int64_t index, Number(what, text.substr(0, slash)));
  ASSIGN_OR_RETURN(const int64_t count, Number(what, text.substr(slash + 1)));
  return Checked(what, index, count);
}

class FromEngine {
 public:
  FromEngine(const Environment& environment, std::optional<int64_t> count) : environment_(environment), count_(count) {}

  StatusOr<Shard> Find() const {
    if (const auto text = environment_("NIBBLE_SHARD")) return Given("NIBBLE_SHARD", *text);
    if (environment_("SLURM_ARRAY_TASK_ID")) return Slurm();
    if (environment_("JOB_COMPLETION_INDEX")) return At("JOB_COMPLETION_INDEX", 0, "NIBBLE_SHARD_COUNT");
    if (environment_("CI_NODE_INDEX")) return At("CI_NODE_INDEX", 1, "CI_NODE_TOTAL");
    return UsageError(
        "--shard auto: no engine has said which shard this is; it reads NIBBLE_SHARD (as in 2/8), "
        "SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX and CI_NODE_INDEX");
  }

 private:
  StatusOr<int64_t> Read(const std::string& name, std::optional<int64_t> otherwise = std::nullopt) const {
    const auto text = environment_(name);
    if (text) return Number(name, *text);
    if (otherwise) return *otherwise;
    return UsageError("--shard auto: {} is not set; `--shard auto/N` gives the number of shards", name);
  }

  StatusOr<Shard> At(const std::string& name, int64_t first, const std::string& total) const {
    ASSIGN_OR_RETURN(const int64_t index, Read(name));
    ASSIGN_OR_RETURN(const int64_t count, count_ ? StatusOr<int64_t>(*count_) : Read(total));
    return Checked(name, index - first + 1, count);
  }

  StatusOr<Shard> Slurm() const {
    ASSIGN_OR_RETURN(const int64_t id, Read("SLURM_ARRAY_TASK_ID"));
    ASSIGN_OR_RETURN(const int64_t least, Read("SLURM_ARRAY_TASK_MIN", 0));
    ASSIGN_OR_RETURN(const int64_t step, Read("SLURM_ARRAY_TASK_STEP", 1));
    ASSIGN_OR_RETURN(const int64_t count, count_ ? StatusOr<int64_t>(*count_) : Read("SLURM_ARRAY_TASK_COUNT"));
    if (step < 1 || id < least || (id - least) % step != 0) {
      return UsageError("SLURM_ARRAY_TASK_ID is {}, which an array from {} in steps of {} does not have", id, least,
                        step);
    }
    return Checked("SLURM_ARRAY_TASK_ID", (id - least) / step + 1, count);
  }

  const Environment& environment_;
  std::optional<int64_t> count_;
};

}  // namespace

std::optional<std::string> ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

StatusOr<Shard> ParseShard(const std::string& text, const Environment& environment) {
  if (text == "auto") return FromEngine(environment, std::nullopt).Find();
  if (text.starts_with("auto/")) {
    ASSIGN_OR_RETURN(const int64_t count, Number("--shard", text.substr(5)));
    return FromEngine(environment, count).Find();
  }
  return Given("--shard", text);
}

}  // namespace quant
