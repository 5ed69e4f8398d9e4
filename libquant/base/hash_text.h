// A number for a name or a file's bytes that is the same on every machine, to seed from. Not for hash tables, nor
// against anyone who looks for collisions.
#pragma once

#include <cstdint>
#include <string_view>

namespace quant {

// 64-bit FNV-1a.
inline uint64_t HashText(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

}  // namespace quant
