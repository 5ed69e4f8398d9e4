// A device that a model is to run on, as far as memory goes. Devices are data, a file each in configs/devices, built
// into the program; users write their own:
//
//   name: my-board
//   about: what it is, in a sentence
//   memory: 1.5 GB           what it has for models; B, kB, MB, GB (powers of 1000), KiB, MiB, GiB
//   memory-at-best: 2 GB     what it may have when little else runs; may be left out
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

struct Device {
  std::string name;
  std::string about;
  int64_t memory = 0;          // bytes for models
  int64_t memory_at_best = 0;  // at least `memory`
};

std::vector<std::string> DeviceNames();

// One of the names, or the path of a file: what ends in .yaml or .yml or holds a '/'. UsageError naming the devices
// there are, or with the place in the file.
StatusOr<Device> FindDevice(const std::string& name_or_path);

// A device's file; `name` is the file's in messages.
StatusOr<Device> ReadDeviceText(const std::string& text, const std::string& name);

// "4 GB", "1.5GiB", "1048576". UsageError for anything else, for none and for more than 64 bits hold.
StatusOr<int64_t> ParseBytes(std::string_view text);

}  // namespace quant
