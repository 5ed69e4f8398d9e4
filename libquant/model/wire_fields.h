// Field numbers and varints of protobuf's wire format, as far as the walks over ModelProto need them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libquant/model/wire.h"

namespace quant {

enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthPrefixed = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

inline constexpr uint32_t kTensorRawData = 9;

// The message that a length-prefixed field of `message` holds, when a walk has to look inside.
inline std::optional<WireMessage> ChildMessage(WireMessage message, uint32_t field) {
  switch (message) {
    case WireMessage::kModel:
      if (field == 7) return WireMessage::kGraph;
      if (field == 25) return WireMessage::kFunction;
      break;
    case WireMessage::kGraph:
      if (field == 1) return WireMessage::kNode;
      if (field == 5) return WireMessage::kTensor;
      break;
    case WireMessage::kNode:
      if (field == 5) return WireMessage::kAttribute;
      break;
    case WireMessage::kAttribute:
      if (field == 5 || field == 10) return WireMessage::kTensor;
      if (field == 6 || field == 11) return WireMessage::kGraph;
      break;
    case WireMessage::kFunction:
      if (field == 7) return WireMessage::kNode;
      break;
    case WireMessage::kTensor:
      break;
  }
  return std::nullopt;
}

inline void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

inline void AppendTag(uint32_t field, WireType type, std::string* out) {
  AppendVarint((static_cast<uint64_t>(field) << 3) | type, out);
}

}  // namespace quant
