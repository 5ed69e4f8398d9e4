// Reads excluded.txt: operators (or domains) that the executor leaves out, with the reason.
#pragma once

#include <fstream>
#include <map>
#include <string>

namespace quant {

inline std::map<std::string, std::string> ReadExcluded() {
  std::map<std::string, std::string> out;
  std::ifstream in(NIBBLE_SOURCE_DIR "/tests/conformance/excluded.txt");
  for (std::string line; std::getline(in, line);) {
    const size_t end = line.find(' ');
    if (line.empty() || line[0] == '#' || end == std::string::npos) continue;
    out[line.substr(0, end)] = line.substr(line.find_first_not_of(' ', end));
  }
  return out;
}

}  // namespace quant
