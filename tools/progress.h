// A line of progress with the time left, on stderr, only when that is a terminal and the user did not ask for quiet.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace quant {

class Progress {
 public:
  Progress(std::string what, bool quiet);
  // Wipes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap enough to be called for every piece of work, from any thread.
  void Update(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool shown_;
  bool drawn_ = false;
  std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

}  // namespace quant
