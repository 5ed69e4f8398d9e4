// What `plan` found out, as text and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libquant/exec/activation_memory.h"
#include "libquant/plan/kv_cache.h"
#include "libquant/plan/memory_plan.h"
#include "libquant/report/report.h"

namespace quant {

struct PlanReport {
  std::optional<std::string> model;
  int64_t parameters = 0;
  std::vector<Precision> precisions;
  double margin_percent = 20;
  std::vector<Device> devices;
  std::vector<Choice> choices;  // one for each device

  enum class CacheSource { kNone, kFlags, kGraph };
  CacheSource cache_source = CacheSource::kNone;
  std::string cache_type;
  CacheSize cache;            // of the first precision
  size_t cache_tensors = 0;   // of the graph
  bool cache_copied = false;  // past and present are values of their own

  std::optional<ActivationMemory> activations;
  std::string peak_node;
  std::map<std::string, int64_t> dims;  // numbers that names got
  std::vector<std::string> notes;

  void AddTo(Report& report) const;

 private:
  Json ToJson() const;
};

}  // namespace quant
