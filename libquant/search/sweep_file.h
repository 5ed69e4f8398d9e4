// A sweep's results on disk, JSON lines: a head that says what is swept, then a line for each configuration as it is
// done. Whole lines only, each flushed to the disk, in the order of the grid: wherever a sweep stops, the file is the
// start of the one it would have written.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/report/json.h"
#include "libquant/report/report.h"
#include "libquant/search/shard.h"
#include "libquant/search/sweep.h"

namespace quant {

// A configuration as the head names it.
struct SweepEntry {
  std::string name;
  std::string refused;
  std::optional<size_t> same_as;
  bool to_measure() const { return refused.empty() && !same_as; }
};

struct SweepHead {
  std::string title;
  std::vector<ReportFile> files;
  std::vector<std::pair<std::string, std::string>> config;
  int64_t float_bytes = 0;
  int64_t samples = 0;
  std::vector<SweepEntry> entries;
  Shard shard;
  std::string key;  // SHA-256 of all that the results depend on: equal for sweeps that may be continued or merged

  // Places in `entries` of what the shard has to measure.
  std::vector<size_t> Mine() const;
};

// `more` is what results depend on beside the files' bytes and the entries.
std::string SweepKey(const SweepHead& head, const std::string& more);

struct SweepResults {
  SweepHead head;
  std::vector<SweepRow> rows;  // in the order they were done
};

// A file whose last line is torn has the lines before. DataError for anything that no sweep wrote.
StatusOr<SweepResults> ReadSweepResults(const std::string& path);

// The results of all shards as those of one sweep. UsageError when they are of different sweeps, when a shard is there
// twice, missing or not finished. `paths` name them in messages.
StatusOr<SweepResults> MergeShards(std::vector<SweepResults> parts, const std::vector<std::string>& paths);

class SweepFile {
 public:
  // Opens the file for this head alone and takes up what it holds; a new one starts with the head. UsageError when it
  // is of another sweep or another process writes it.
  static StatusOr<std::unique_ptr<SweepFile>> Open(const std::string& path, const SweepHead& head, bool fresh);
  ~SweepFile();
  SweepFile(const SweepFile&) = delete;
  SweepFile& operator=(const SweepFile&) = delete;

  // What was there.
  const std::vector<SweepRow>& rows() const { return rows_; }
  Status Append(const SweepRow& row);

 private:
  SweepFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status TakeUp(const SweepHead& head);
  Status Write(const std::string& line);
  std::string path_;
  int fd_;
  std::vector<SweepRow> rows_;
};

}  // namespace quant
