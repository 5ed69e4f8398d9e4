// Groups of options that several tools share, spelled and explained the same everywhere.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/data/samples.h"
#include "libquant/exec/session.h"
#include "libquant/ir/graph.h"
#include "libquant/report/json.h"
#include "libquant/report/report.h"
#include "tools/args.h"

namespace quant {

// --threads, --quiet, --json, --report.
class CommonArgs {
 public:
  void Declare(Args& args);
  // Of a tool that reports a Report: --report writes any of its formats.
  void DeclareRendered(Args& args);
  // Checks values and sets the number of threads.
  Status Apply() const;
  // Prints the text, or the JSON when asked for, and writes the report file.
  Status Emit(const std::string& text, const Json& json) const;
  // The same of a report. `process` holds what is said of this process (memory, time): JSON on standard output has it,
  // files don't, so that they are the same each time.
  Status Emit(const Report& report, const Json& process) const;
  // "nibble: warning: ..." on stderr, unless quiet.
  void Warn(const std::string& text) const;
  bool quiet() const { return quiet_; }
  const std::optional<std::string>& report() const { return report_; }

 private:
  int64_t threads_ = 0;
  bool quiet_ = false;
  bool json_ = false;
  std::optional<std::string> report_;
  bool rendered_ = false;
};

// The files of a report; hashed when it will be written to a file.
class FileList {
 public:
  FileList(Report& report, bool hashed) : report_(report), hashed_(hashed) {}
  Status Add(const std::string& role, const std::optional<std::string>& path);
  // The model's file and those its weights are in.
  Status AddModel(const std::string& role, const Model& model);

 private:
  Report& report_;
  bool hashed_;
};

// --data PATH | --random N --seed S --dynamic-dim N --dim NAME=N.
class SampleArgs {
 public:
  // Without `dims` there is no --dim: the tool has one of its own.
  void Declare(Args& args, bool dims = true);
  // UsageError for none (when they are needed), both, or an option without effect.
  Status Check(const Args& args, bool needed) const;
  // What one word says: a path, or random:N. UsageError for what follows "random:".
  Status Take(const std::string& word);
  bool given() const { return data_ || random_; }
  const std::optional<std::string>& data() const { return data_; }
  // The model must outlive the source.
  StatusOr<std::unique_ptr<SampleSource>> Open(const Model& model) const;
  // The same; one random sample where the user asked for none.
  StatusOr<std::unique_ptr<SampleSource>> OpenOrOneRandom(const Model& model) const;
  // "--data heldout.npz", "--random 8 --seed 1".
  std::string Describe() const;

 private:
  std::optional<std::string> data_;
  std::optional<int64_t> random_;
  int64_t seed_ = 0;
  StatusOr<RandomDims> ParseDims() const;
  int64_t dynamic_dim_ = 8;
  bool has_dims_ = true;
  std::vector<std::string> dims_;  // "NAME=N"
};

// A session on the model; when operators lack a kernel, the error also says which tools still work.
StatusOr<std::unique_ptr<Session>> CreateSession(const std::string& path, const Model& model,
                                                 const SessionOptions& options = {});

// UsageError when an output is the same file as an input (the models' files, `data` or a file in that folder) or as
// another output; OutputError when its folder cannot be written to. Before any work is done.
Status CheckOutputs(const std::vector<std::string>& outputs, const std::vector<const Model*>& models,
                    const std::optional<std::string>& data);

}  // namespace quant
