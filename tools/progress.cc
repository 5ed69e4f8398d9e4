#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace quant {
namespace {

constexpr double kSecondsBetween = 0.1;

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(std::string what, bool quiet) : what_(std::move(what)), shown_(!quiet && isatty(2) != 0) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::Update(int64_t done, int64_t total) {
  if (!shown_ || total <= 0) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (std::chrono::duration<double>(now - last_).count() < kSecondsBetween) return;
  last_ = now;
  const double part = static_cast<double>(done) / static_cast<double>(total);
  const double spent = std::chrono::duration<double>(now - begin_).count();
  const std::string left = part > 0 ? ", " + Duration(spent * (1 - part) / part) + " left" : "";
  fmt::print(stderr, "\r\033[K{}: {:.0f} %{}", what_, part * 100, left);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace quant
