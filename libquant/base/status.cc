#include "libquant/base/status.h"

namespace quant {

int ExitCode(const Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kFailedPrecondition:
      return 1;
    case absl::StatusCode::kInvalidArgument:
      return 2;
    case absl::StatusCode::kDataLoss:
      return 3;
    case absl::StatusCode::kUnimplemented:
      return 4;
    case absl::StatusCode::kUnavailable:
      return 5;
    default:
      return 70;
  }
}

std::string Message(const Status& status) { return std::string(status.message().data(), status.message().size()); }

Status WithContext(const Status& status, const std::string& context) {
  return status.ok() ? status : Status(status.code(), context + ": " + Message(status));
}

}  // namespace quant
