#include "libquant/search/sweep_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "libquant/base/file.h"
#include "libquant/base/sha256.h"
#include "libquant/base/version.h"

namespace quant {
namespace {

constexpr int64_t kLongest = int64_t{1} << 30;

Json HeadJson(const SweepHead& head) {
  Json files = Json::Array(), config = Json::Object(), entries = Json::Array();
  for (const ReportFile& f : head.files) {
    files.Append(Json::Object().Set("role", f.role).Set("path", f.path).Set("bytes", f.bytes).Set("sha256", f.sha256));
  }
  for (const auto& [key, value] : head.config) config.Set(key, value);
  for (const SweepEntry& e : head.entries) {
    Json row = Json::Object().Set("name", e.name);
    if (e.same_as) row.Set("same_as", static_cast<int64_t>(*e.same_as));
    if (!e.refused.empty()) row.Set("refused", e.refused);
    entries.Append(row);
  }
  Json out = Json::Object().Set("nibble_sweep", 1).Set("key", head.key).Set("title", head.title);
  out.Set("shard", Json::Object().Set("index", head.shard.index).Set("count", head.shard.count));
  out.Set("float_bytes", head.float_bytes).Set("samples", head.samples);
  return out.Set("files", files).Set("config", config).Set("configurations", entries);
}

int64_t Int(const Json& json) { return static_cast<int64_t>(json.Number().value_or(0)); }
std::string Text(const Json& json) { return json.String().value_or(""); }

std::optional<SweepHead> HeadOf(const Json& json) {
  if (json.At("nibble_sweep").Number() != 1.0) return std::nullopt;
  SweepHead head;
  head.key = Text(json.At("key"));
  head.title = Text(json.At("title"));
  head.shard = {Int(json.At("shard").At("index")), Int(json.At("shard").At("count"))};
  head.float_bytes = Int(json.At("float_bytes"));
  head.samples = Int(json.At("samples"));
  for (const auto& [name, f] : json.At("files").Items()) {
    head.files.push_back({Text(f.At("role")), Text(f.At("path")), Int(f.At("bytes")), Text(f.At("sha256"))});
  }
  for (const auto& [key, value] : json.At("config").Items()) head.config.emplace_back(key, Text(value));
  for (const auto& [name, e] : json.At("configurations").Items()) {
    SweepEntry entry{Text(e.At("name")), Text(e.At("refused")), std::nullopt};
    if (const auto same = e.At("same_as").Number()) entry.same_as = static_cast<size_t>(std::max(*same, 0.0));
    if (entry.same_as && *entry.same_as >= head.entries.size()) return std::nullopt;
    head.entries.push_back(std::move(entry));
  }
  if (head.key.empty() || head.shard.count < 1 || head.shard.index < 1 || head.shard.index > head.shard.count) {
    return std::nullopt;
  }
  return head;
}

Json RowJson(const SweepRow& row) {
  Json out = Json::Object().Set("configuration", static_cast<int64_t>(row.config)).Set("name", row.name);
  if (!row.failed.empty()) return out.Set("failed", row.failed);
  out.Set("bytes", row.bytes).Set("coverage", row.coverage).Set("bits_per_weight", row.bits_per_weight);
  if (row.reference_accuracy) out.Set("reference_accuracy", *row.reference_accuracy);
  Json measures = Json::Object();
  for (const auto& [name, value] : row.measures) measures.Set(name, value);
  return out.Set("measures", measures);
}

std::optional<SweepRow> RowOf(const Json& json, const SweepHead& head) {
  const auto place = json.At("configuration").Number();
  if (!place || *place < 0 || *place >= static_cast<double>(head.entries.size())) return std::nullopt;
  SweepRow row;
  row.config = static_cast<size_t>(*place);
  row.name = Text(json.At("name"));
  if (row.name != head.entries[row.config].name) return std::nullopt;
  row.failed = Text(json.At("failed"));
  row.bytes = Int(json.At("bytes"));
  row.coverage = json.At("coverage").Number().value_or(0);
  row.bits_per_weight = json.At("bits_per_weight").Number().value_or(0);
  row.reference_accuracy = json.At("reference_accuracy").Number();
  for (const auto& [name, value] : json.At("measures").Items()) {
    if (const auto number = value.Number()) row.measures.emplace_back(name, *number);
  }
  if (row.failed.empty() && row.measures.empty()) return std::nullopt;
  return row;
}

// Whole lines; `whole` becomes their length in bytes.
std::vector<std::string> Lines(const std::string& text, size_t& whole) {
  std::vector<std::string> out;
  whole = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', whole)) {
    out.push_back(text.substr(whole, end - whole));
    whole = end + 1;
  }
  return out;
}

StatusOr<SweepResults> ResultsOf(const std::string& path, const std::vector<std::string>& lines) {
  SweepResults out;
  if (lines.empty()) return DataError("{} is empty: a sweep's results begin with a line that says what is swept", path);
  auto head = HeadOf(Json::Parse(lines[0]));
  if (!head) return DataError("{} is no file of a sweep's results (`nibble sweep --results FILE` writes one)", path);
  out.head = std::move(*head);
  const std::vector<size_t> mine = out.head.Mine();
  for (size_t i = 1; i < lines.size(); ++i) {
    auto row = RowOf(Json::Parse(lines[i]), out.head);
    if (!row) return DataError("{}:{}: this is no result of the sweep that the first line names", path, i + 1);
    if (i > mine.size() || row->config != mine[i - 1]) {
      return DataError("{}:{}: {} does not belong here: a sweep writes its configurations in order", path, i + 1,
                       row->name);
    }
    out.rows.push_back(std::move(*row));
  }
  return out;
}

}  // namespace

std::vector<size_t> SweepHead::Mine() const {
  std::vector<size_t> out;
  int64_t next = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].to_measure() && shard.Holds(next++)) out.push_back(i);
  }
  return out;
}

std::string SweepKey(const SweepHead& head, const std::string& more) {
  Sha256 hash;
  hash.Add(fmt::format("nibble {}\n{}\n", NibbleVersion(), more));
  for (const ReportFile& f : head.files) {
    if (f.role != "config") hash.Add(fmt::format("{} {} {}\n", f.role, f.bytes, f.sha256));
  }
  for (const SweepEntry& e : head.entries) hash.Add(fmt::format("{}\n", e.name));
  return hash.Hex();
}

StatusOr<SweepResults> ReadSweepResults(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kLongest));
  size_t whole = 0;
  return ResultsOf(path, Lines(text, whole));
}

StatusOr<SweepResults> MergeShards(std::vector<SweepResults> parts, const std::vector<std::string>& paths) {
  const int64_t count = parts[0].head.shard.count;
  std::map<int64_t, size_t> by_index;
  for (size_t i = 0; i < parts.size(); ++i) {
    const SweepHead& head = parts[i].head;
    if (head.key != parts[0].head.key) {
      return UsageError("{} and {} are of different sweeps: model, samples, options or version differ", paths[0],
                        paths[i]);
    }
    if (head.shard.count != count) {
      return UsageError("{} is a shard of {}, {} one of {}", paths[0], count, paths[i], head.shard.count);
    }
    const auto [it, is_new] = by_index.emplace(head.shard.index, i);
    if (!is_new) return UsageError("{} and {} are both shard {}", paths[it->second], paths[i], head.shard.Text());
    const size_t wanted = head.Mine().size(), got = parts[i].rows.size();
    if (got < wanted) {
      return UsageError("{} is not finished: {} of {} configurations; the command that wrote it goes on with it",
                        paths[i], got, wanted);
    }
  }
  std::string missing;
  for (int64_t i = 1; i <= count; ++i) {
    if (!by_index.contains(i)) missing += fmt::format("{}{}/{}", missing.empty() ? "" : ", ", i, count);
  }
  if (!missing.empty()) return UsageError("shards are missing: {}", missing);
  SweepResults out;
  out.head = parts[by_index.at(1)].head;
  out.head.shard = {};
  for (SweepResults& part : parts) {
    for (SweepRow& row : part.rows) out.rows.push_back(std::move(row));
  }
  std::sort(out.rows.begin(), out.rows.end(), [](const auto& a, const auto& b) { return a.config < b.config; });
  return out;
}

StatusOr<std::unique_ptr<SweepFile>> SweepFile::Open(const std::string& path, const SweepHead& head, bool fresh) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return OutputError("{}: {}", path, std::strerror(errno));
  std::unique_ptr<SweepFile> file(new SweepFile(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return UsageError("{}: another sweep is writing this file", path);
  }
  if (fresh && ftruncate(fd, 0) != 0) return OutputError("{}: {}", path, std::strerror(errno));
  RETURN_IF_ERROR(file->TakeUp(head));
  return file;
}

SweepFile::~SweepFile() { close(fd_); }

Status SweepFile::TakeUp(const SweepHead& head) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path_, kLongest));
  size_t whole = 0;
  const std::vector<std::string> lines = Lines(text, whole);
  const std::string start = HeadJson(head).Line();
  // A torn first line is the start of ours, or this is somebody else's file.
  if (lines.empty() && !start.starts_with(text)) {
    return DataError("{} is no file of a sweep's results; it is left as it is", path_);
  }
  if (!lines.empty()) {
    ASSIGN_OR_RETURN(SweepResults held, ResultsOf(path_, lines));
    if (held.head.key != head.key) {
      return UsageError(
          "{} holds results of another sweep: the model, the samples, the labels, an option or Nibble's version is "
          "not the same. Another --results FILE starts anew, --fresh empties this one",
          path_);
    }
    if (!(held.head.shard == head.shard)) {
      return UsageError("{} holds results of shard {}, not {}", path_, held.head.shard.Text(), head.shard.Text());
    }
    rows_ = std::move(held.rows);
  }
  if (ftruncate(fd_, static_cast<off_t>(whole)) != 0 || lseek(fd_, 0, SEEK_END) < 0) {
    return OutputError("{}: {}", path_, std::strerror(errno));
  }
  return lines.empty() ? Write(start) : OkStatus();
}

Status SweepFile::Append(const SweepRow& row) { return Write(RowJson(row).Line()); }

Status SweepFile::Write(const std::string& line) {
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return OutputError("{}: {}", path_, std::strerror(n < 0 ? errno : ENOSPC));
    done += static_cast<size_t>(n);
  }
  if (fsync(fd_) != 0 && errno != EINVAL) return OutputError("{}: {}", path_, std::strerror(errno));
  return OkStatus();
}

}  // namespace quant
