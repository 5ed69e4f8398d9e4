#include "libquant/model/payload_writer.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>

namespace quant {
namespace {

constexpr int64_t kProgressStep = int64_t{4} << 20;

// Counts bytes from any thread and reports now and then, one call at a time.
class Progress {
 public:
  Progress(const std::function<void(int64_t, int64_t)>& report, int64_t total) : report_(report), total_(total) {}

  void Add(int64_t bytes) {
    const int64_t before = done_.fetch_add(bytes);
    if (report_ && before / kProgressStep != (before + bytes) / kProgressStep) Report();
  }
  void Report() {
    if (!report_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    report_(done_.load(), total_);
  }

 private:
  const std::function<void(int64_t, int64_t)>& report_;
  int64_t total_;
  std::atomic<int64_t> done_{0};
  std::mutex mutex_;
};

class GroupSink : public ByteSink {
 public:
  GroupSink(const PayloadGroup& group, Progress* progress) : group_(group), progress_(*progress) {}

  Status Write(int64_t offset, std::span<const std::byte> bytes) override {
    const auto length = static_cast<int64_t>(bytes.size());
    const int64_t size = group_.tensor.byte_size();
    if (offset < 0 || offset > size || length > size - offset) {
      return BugError("a producer wrote {} bytes at {} of {}", length, offset, size);
    }
    for (const Destination& to : group_.destinations) {
      RETURN_IF_ERROR(to.file->WriteAt(to.offset + offset, bytes));
    }
    written_.fetch_add(length);
    progress_.Add(length * static_cast<int64_t>(group_.destinations.size()));
    return OkStatus();
  }

  Status CheckDone() const {
    if (written_.load() == group_.tensor.byte_size()) return OkStatus();
    return BugError("{} bytes were written of a tensor {} of {}", written_.load(), Describe(group_.tensor),
                    group_.tensor.byte_size());
  }

 private:
  const PayloadGroup& group_;
  Progress& progress_;
  std::atomic<int64_t> written_{0};
};

class DiscardSink : public ByteSink {
 public:
  Status Write(int64_t, std::span<const std::byte>) override { return OkStatus(); }
};

using PayloadKey = std::tuple<int, uint64_t, uint64_t, int64_t, int64_t>;

PayloadKey KeyOf(const Tensor& tensor) {
  if (const FileRange* r = tensor.file_range()) {
    return {0, r->file->id().device, r->file->id().inode, r->offset, r->length};
  }
  if (const Deferred* d = tensor.deferred())
    return {1, reinterpret_cast<uintptr_t>(d->producer.get()), 0, d->output, 0};
  return {2, reinterpret_cast<uintptr_t>(tensor.bytes().data()), 0, 0, tensor.byte_size()};
}

Status Produce(const TensorProducer& producer, const std::vector<GroupSink*>& by_output) {
  DiscardSink discard;
  std::vector<ByteSink*> sinks(static_cast<size_t>(producer.output_count()), &discard);
  if (by_output.size() > sinks.size()) return BugError("a tensor asks for an output that its producer lacks");
  for (size_t i = 0; i < by_output.size(); ++i) {
    if (by_output[i] != nullptr) sinks[i] = by_output[i];
  }
  return producer.Produce(sinks);
}

}  // namespace

std::vector<size_t> GroupPayloads(const std::vector<Tensor>& tensors) {
  std::map<PayloadKey, size_t> known;
  std::vector<size_t> out;
  out.reserve(tensors.size());
  for (const Tensor& t : tensors) out.push_back(known.emplace(KeyOf(t), known.size()).first->second);
  return out;
}

Status WritePayloads(const std::vector<PayloadGroup>& groups,
                     const std::function<void(int64_t, int64_t)>& progress_callback) {
  int64_t total = 0;
  for (const PayloadGroup& g : groups) total += g.tensor.byte_size() * static_cast<int64_t>(g.destinations.size());
  Progress progress(progress_callback, total);
  std::vector<std::unique_ptr<GroupSink>> sinks;
  std::unordered_map<const TensorProducer*, std::vector<GroupSink*>> outputs;
  for (const PayloadGroup& g : groups) {
    sinks.push_back(std::make_unique<GroupSink>(g, &progress));
    if (const Deferred* d = g.tensor.deferred()) {
      auto& of_producer = outputs[d->producer.get()];
      if (of_producer.size() <= static_cast<size_t>(d->output)) of_producer.resize(static_cast<size_t>(d->output) + 1);
      of_producer[static_cast<size_t>(d->output)] = sinks.back().get();
    }
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const Deferred* d = groups[i].tensor.deferred();
    if (d == nullptr) {
      RETURN_IF_ERROR(groups[i].tensor.CopyTo(*sinks[i]));
    } else if (const auto due = outputs.find(d->producer.get()); due != outputs.end()) {
      RETURN_IF_ERROR(Produce(*d->producer, due->second));
      outputs.erase(due);  // its other outputs are written by now
    }
    RETURN_IF_ERROR(sinks[i]->CheckDone());
  }
  progress.Report();
  return OkStatus();
}

}  // namespace quant
