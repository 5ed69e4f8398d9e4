#include "libquant/config/device.h"

#include <fstream>

#include "tests/catch.h"

namespace quant {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto device = ReadDeviceText(text, "d.yaml");
  INFO(text);
  REQUIRE(!device.ok());
  CHECK(ExitCode(device.status()) == 2);
  return Message(device.status());
}

TEST_CASE("every device can be read, says what it is and has memory") {
  CHECK(DeviceNames() == std::vector<std::string>{"embedded-board", "flagship-phone", "mid-range-phone"});
  for (const std::string& name : DeviceNames()) {
    INFO(name);
    const auto device = FindDevice(name);
    REQUIRE(device.ok());
    CHECK(device->name == name);
    CHECK(!device->about.empty());
    CHECK(device->memory >= 1'000'000'000);
    CHECK(device->memory_at_best >= device->memory);
  }
  const auto phone = FindDevice("flagship-phone");
  REQUIRE(phone.ok());
  CHECK(phone->memory == 4'000'000'000);
  CHECK(phone->memory_at_best == 6'000'000'000);
}

TEST_CASE("a device of the user's own is a file") {
  const std::string path = "device_test_board.yaml";
  std::ofstream(path) << "name: mine\nabout: a board\nmemory: 1.5 GiB\n";
  const auto device = FindDevice(path);
  std::remove(path.c_str());
  REQUIRE(device.ok());
  CHECK(device->name == "mine");
  CHECK(device->memory == 1'610'612'736);
  CHECK(device->memory_at_best == device->memory);
  CHECK(ExitCode(FindDevice("nowhere/board.yaml").status()) == 3);
  CHECK(Message(FindDevice("phone").status()).find("flagship-phone") != std::string::npos);
}

TEST_CASE("sizes have units of 1000 and of 1024") {
  const std::pair<const char*, int64_t> sizes[] = {
      {"1", 1},         {"512 MiB", 536'870'912}, {"4 GB", 4'000'000'000}, {"4GB", 4'000'000'000},
      {"2.5 kB", 2500}, {"1e3 B", 1000}};
  for (const auto& [text, bytes] : sizes) {
    INFO(text);
    const auto parsed = ParseBytes(text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == bytes);
  }
  for (const char* text : {"", "GB", "0", "-1 GB", "4 gb", "4 GB more", "nan", "inf GB", "1e30 GB", "1e400"}) {
    INFO(text);
    CHECK(!ParseBytes(text).ok());
  }
}

TEST_CASE("faults of a device's file have a place") {
  CHECK(ErrorOf("name: d\nmemory: much").find("d.yaml:2:9: memory: 'much' is no size") == 0);
  CHECK(ErrorOf("ram: 4 GB").find("d.yaml:1:1: unknown key 'ram'") == 0);
  CHECK(ErrorOf("memory: 4 GB") == "d.yaml: a device needs a name");
  CHECK(ErrorOf("name: d") == "d.yaml: a device needs its memory for models, as in 'memory: 2 GB'");
  CHECK(ErrorOf("name: d\nmemory: 4 GB\nmemory-at-best: 3 GB") == "d.yaml: memory-at-best is less than memory");
}

}  // namespace
}  // namespace quant
