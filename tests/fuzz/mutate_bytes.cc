#include "tests/fuzz/mutate_bytes.h"

#include <algorithm>

namespace quant {
namespace {

void MutateOnce(std::string& bytes, const std::string& donor, Random& random) {
  if (bytes.empty()) bytes.push_back('\0');
  const size_t at = Below(random, bytes.size());
  const size_t length = 1 + Below(random, std::min<size_t>(bytes.size() - at, 64));
  switch (Below(random, 8)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(random, 8)));
      break;
    case 1:
      bytes[at] = static_cast<char>(random() & 0xff);
      break;
    case 2:  // a length or number, one more or less
      bytes[at] = static_cast<char>(bytes[at] + (OneIn(random, 2) ? 1 : -1));
      break;
    case 3:  // a number of ten bytes: the largest there is
      bytes.replace(at, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
      break;
    case 4:
      bytes.erase(at, length);
      break;
    case 5:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 6:
      if (!donor.empty()) bytes.insert(at, donor.substr(Below(random, donor.size()), length));
      break;
    default:
      if (!donor.empty()) bytes.replace(at, length, donor.substr(Below(random, donor.size()), length));
      break;
  }
}

}  // namespace

std::string MutateBytes(std::string bytes, const std::string& donor, Random& random) {
  for (size_t count = 1 + Below(random, 4); count > 0; --count) MutateOnce(bytes, donor, random);
  return bytes;
}

}  // namespace quant
