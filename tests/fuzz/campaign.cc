#include "tests/fuzz/campaign.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "libquant/base/scatter_bits.h"
#include "tests/fuzz/mutate_bytes.h"
#include "tests/fuzz/mutate_model.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

// A process runs this many cases at most, as what libraries keep adds up.
constexpr int64_t kCasesPerProcess = 5000;
[[maybe_unused]] constexpr rlim_t kAddressSpace = rlim_t{6} << 30;

// Where the processes tell how far they are.
struct Progress {
  int64_t next = 0;
  int64_t done = 0;
  int64_t passed[kStages] = {}, refused[kStages] = {};  // by the stage
};

class Campaign {
 public:
  Campaign(const std::vector<CorpusEntry>& corpus, const CampaignOptions& options)
      : corpus_(corpus), options_(options), mutator_(corpus), case_(options.folder + "/case.onnx") {
    void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    progress_ = new (memory) Progress;
  }
  ~Campaign() { munmap(progress_, sizeof(Progress)); }
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  int64_t Run() {
    fs::create_directories(options_.folder);
    while (More()) {
      const pid_t child = fork();
      if (child == 0) RunCases();
      int status = 0;
      if (child < 0 || waitpid(child, &status, 0) != child) std::abort();
      if (status != 0) KeepFault(status);
    }
    fmt::print("{} cases of {} models, {} faults\n", progress_->done, corpus_.size(), faults_);
    for (int s = 0; s < kStages; ++s) {
      if (progress_->passed[s] + progress_->refused[s] == 0) continue;
      fmt::print("  {}: {} done, {} refused\n", NameOf(static_cast<Stage>(s)), progress_->passed[s],
                 progress_->refused[s]);
    }
    return faults_;
  }

 private:
  int64_t Total() const { return static_cast<int64_t>(corpus_.size()) * (options_.mutations + 1); }
  bool More() const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return progress_->next < Total() && (options_.seconds <= 0 || seconds < options_.seconds);
  }

  // Case i: first every entry as it is, then each of them changed in one way, and so on.
  std::string Case(int64_t i) const {
    const auto entries = static_cast<int64_t>(corpus_.size());
    const std::string& bytes = corpus_[static_cast<size_t>(i % entries)].bytes;
    if (i < entries) return bytes;
    Random random(ScatterBits(options_.seed + ScatterBits(static_cast<uint64_t>(i))));
    const std::string& donor = OneOf(random, corpus_).bytes;
    if (OneIn(random, 5)) return MutateBytes(bytes, donor, random);
    return mutator_.Mutate(bytes, donor, random);
  }

  [[noreturn]] void RunCases() {
    LimitMemory();
    const int log = open((options_.folder + "/case.log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(log, STDERR_FILENO);
    for (int64_t n = 0; n < kCasesPerProcess && More(); ++n) RunCase(progress_->next++);
    std::_Exit(0);
  }

  static void LimitMemory() {
#if !defined(__SANITIZE_ADDRESS__)  // which reserves terabytes, and has a limit of its own
    const rlimit limit = {kAddressSpace, kAddressSpace};
    setrlimit(RLIMIT_AS, &limit);
#endif
  }

  void RunCase(int64_t i) {
    const std::string bytes = Case(i);
    std::ofstream(case_, std::ios::binary) << bytes;
    alarm(options_.case_seconds);
    const Endings endings = options_.target(case_, bytes);
    alarm(0);
    for (const Ending& ending : endings) {
      ++(ending.status.ok() ? progress_->passed : progress_->refused)[static_cast<int>(ending.stage)];
      if (ending.allowed()) continue;
      fmt::print(stderr, "{}: exit code {}: {}\n", NameOf(ending.stage), ExitCode(ending.status),
                 Message(ending.status));
    }
    if (!std::all_of(endings.begin(), endings.end(), [](const Ending& e) { return e.allowed(); })) std::_Exit(1);
    ++progress_->done;
  }

  void KeepFault(int status) {
    ++faults_;
    ++progress_->done;
    const int64_t i = progress_->next - 1;
    const std::string kept = fmt::format("{}/fault-{}", options_.folder, i);
    fs::copy_file(case_, kept + ".onnx", fs::copy_options::overwrite_existing);
    fs::copy_file(options_.folder + "/case.log", kept + ".log", fs::copy_options::overwrite_existing);
    const std::string how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                                : fmt::format("exit code {}", WEXITSTATUS(status));
    const size_t entry = static_cast<size_t>(i) % corpus_.size();
    fmt::print("FAULT: case {} ({}, from {}): {}.onnx\n", i, how, corpus_[entry].name, kept);
    std::fflush(stdout);
  }

  const std::vector<CorpusEntry>& corpus_;
  const CampaignOptions& options_;
  const ModelMutator mutator_;
  const std::string case_;
  Progress* progress_ = nullptr;
  int64_t faults_ = 0;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

int64_t RunCampaign(const std::vector<CorpusEntry>& corpus, const CampaignOptions& options) {
  return Campaign(corpus, options).Run();
}

}  // namespace quant
