#include <algorithm>
#include <set>

#include "libquant/plan/kv_cache.h"

namespace quant {
namespace {

bool IsName(const Dim& d) { return !d.known() && !d.symbol.empty() && d.symbol != "?"; }

// Arithmetic over other names: "past + seq".
bool IsArithmetic(const std::string& name) { return name.find_first_of("+*/") != std::string::npos; }

class Binder {
 public:
  Binder(const Graph& graph, const std::vector<CacheTensor>& caches, const SequenceDims& dims)
      : graph_(graph), caches_(caches), dims_(dims) {}

  StatusOr<std::map<std::string, int64_t>> Run() {
    if (dims_.batch) RETURN_IF_ERROR(BindBatch());
    if (dims_.sequence) RETURN_IF_ERROR(caches_.empty() ? BindTokens() : BindCaches(*dims_.sequence));
    return out_;
  }

 private:
  // Names of a dimension of the inputs of token ids and masks: integers of rank 2.
  std::set<std::string> NamesOfTokens(size_t axis) const {
    std::set<std::string> out;
    for (ValueId v : graph_.main().inputs) {
      const Value& value = graph_.value(v);
      const bool whole = value.dtype == DType::kInt64 || value.dtype == DType::kInt32;
      if (!whole || value.constant || !value.shape || value.shape->size() != 2) continue;
      if (IsName((*value.shape)[axis])) out.insert((*value.shape)[axis].symbol);
    }
    return out;
  }

  std::set<std::string> NamesOfBatch() const {
    std::set<std::string> out = NamesOfTokens(0);
    for (const CacheTensor& c : caches_) {
      const size_t axis = c.shape.size() == 5 ? 1 : 0;
      if (IsName(c.shape[axis])) out.insert(c.shape[axis].symbol);
    }
    if (!out.empty()) return out;
    for (ValueId v : graph_.main().inputs) {
      const Value& value = graph_.value(v);
      if (value.constant || !value.shape || value.shape->empty()) continue;
      if (IsName(value.shape->front())) out.insert(value.shape->front().symbol);
    }
    return out;
  }

  void Bind(const std::string& name, int64_t number) {
    if (dims_.given.count(name) == 0) out_.emplace(name, number);
  }

  std::optional<int64_t> NumberOf(const std::string& name) const {
    if (const auto it = dims_.given.find(name); it != dims_.given.end()) return it->second;
    if (const auto it = out_.find(name); it != out_.end()) return it->second;
    return std::nullopt;
  }

  Status BindBatch() {
    const std::set<std::string> names = NamesOfBatch();
    if (names.empty()) return UsageError("--batch: no input's first dimension has a name; use --input NAME=SHAPE");
    for (const std::string& name : names) Bind(name, *dims_.batch);
    return OkStatus();
  }

  Status BindTokens() {
    std::set<std::string> names;
    for (const std::string& name : NamesOfTokens(1)) {
      if (!IsArithmetic(name) && dims_.given.count(name) == 0) names.insert(name);
    }
    if (names.size() != 1) {
      return UsageError("--sequence: {} dimension of the model is that of a sequence of tokens{}; use --dim NAME=N",
                        names.empty() ? "no open" : "more than one",
                        names.empty() ? "" : fmt::format(" ({})", fmt::join(names, ", ")));
    }
    Bind(*names.begin(), *dims_.sequence);
    return OkStatus();
  }

  Status BindCaches(int64_t sequence) {
    std::set<std::string> pasts, presents;
    for (const CacheTensor& c : caches_) {
      const Dim& length = c.shape[c.length_axis];
      if (!c.grows && length.known() && length.value != sequence) {
        return UsageError("--sequence {}: the model's cache has a fixed length of {}", sequence, length.value);
      }
      if (IsName(length)) presents.insert(length.symbol);
      if (!c.grows || c.past == kNoValue) continue;
      const Dim& past = (*graph_.value(c.past).shape)[c.length_axis];
      if (IsName(past)) pasts.insert(past.symbol);
    }
    for (const std::string& name : presents) {
      if (!IsArithmetic(name)) Bind(name, sequence);
    }
    // What is new: one token, or what the user says.
    int64_t fresh = 1;
    for (const std::string& name : NamesOfTokens(1)) {
      if (IsArithmetic(name) || pasts.count(name) > 0) continue;
      if (const auto number = NumberOf(name)) {
        if (presents.count(name) == 0) fresh = std::max(fresh, *number);
      } else {
        Bind(name, 1);
      }
    }
    if (fresh > sequence) return UsageError("--sequence {} is less than the {} new tokens", sequence, fresh);
    // A dimension is 1 or more: a past of none is planned as one of a single token.
    for (const std::string& name : pasts) Bind(name, std::max<int64_t>(sequence - fresh, 1));
    BindMasks(sequence);
    return OkStatus();
  }

  // A mask over past and new tokens, whose parts have names that nothing else has.
  void BindMasks(int64_t sequence) {
    for (const std::string& name : NamesOfTokens(1)) {
      if (!IsArithmetic(name)) continue;
      const auto is_part = [&](const auto& entry) { return name.find(entry.first) != std::string::npos; };
      const bool follows = std::any_of(out_.begin(), out_.end(), is_part) ||
                           std::any_of(dims_.given.begin(), dims_.given.end(), is_part);
      if (!follows) Bind(name, sequence);
    }
  }

  const Graph& graph_;
  const std::vector<CacheTensor>& caches_;
  const SequenceDims& dims_;
  std::map<std::string, int64_t> out_;
};

}  // namespace

StatusOr<std::map<std::string, int64_t>> BindSequence(const Graph& graph, const std::vector<CacheTensor>& caches,
                                                      const SequenceDims& dims) {
  return Binder(graph, caches, dims).Run();
}

}  // namespace quant
