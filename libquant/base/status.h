// Expected failures as values. Every fallible function returns Status or StatusOr; library code neither
// prints nor exits. The five kinds below are all there are; tools map them to exit codes in one place.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quant {

using absl::Status;
template <typename T>
using StatusOr = absl::StatusOr<T>;

inline Status OkStatus() { return absl::OkStatus(); }

// Exit code of the process for a status: 0 done; 1 a gate or comparison was not met; 2 bad usage or config;
// 3 unreadable or invalid model or data; 4 something not supported; 5 output could not be written;
// 70 a bug in Nibble.
int ExitCode(const Status& status);

template <typename... Args>
Status GateError(fmt::format_string<Args...> text, Args&&... args) {
  return absl::FailedPreconditionError(fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
Status UsageError(fmt::format_string<Args...> text, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(text, std::forward<Args>(args)...));
}
// The user's model or samples are unreadable or wrong.
template <typename... Args>
Status DataError(fmt::format_string<Args...> text, Args&&... args) {
  return absl::DataLossError(fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
Status Unsupported(fmt::format_string<Args...> text, Args&&... args) {
  return absl::UnimplementedError(fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
Status OutputError(fmt::format_string<Args...> text, Args&&... args) {
  return absl::UnavailableError(fmt::format(text, std::forward<Args>(args)...));
}
// A broken invariant of ours, never the user's fault.
template <typename... Args>
Status BugError(fmt::format_string<Args...> text, Args&&... args) {
  return absl::InternalError(fmt::format(text, std::forward<Args>(args)...));
}

// The same kind of failure with "context: " put before its message.
Status WithContext(const Status& status, const std::string& context);
// The message as a std::string (Debian 12's Abseil has a string_view of its own).
std::string Message(const Status& status);

}  // namespace quant

#define NIBBLE_CONCAT_INNER(a, b) a##b
#define NIBBLE_CONCAT(a, b) NIBBLE_CONCAT_INNER(a, b)
#define RETURN_IF_ERROR(expr)                                                              \
  do {                                                                                     \
    if (::quant::Status nibble_status = (expr); !nibble_status.ok()) return nibble_status; \
  } while (false)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)    \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL(NIBBLE_CONCAT(nibble_or_, __LINE__), lhs, expr)
