#include "libquant/config/device.h"

#include <charconv>
#include <cmath>

#include "libquant/base/file.h"
#include "libquant/config/built_in.h"
#include "libquant/config/yaml_text.h"

namespace quant {
namespace {

constexpr std::string_view kFolder = "devices/";
constexpr int64_t kLongest = int64_t{1} << 20;
constexpr double kTooLarge = 9223372036854775808.0;  // 2^63

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"", 1},
                           {"B", 1},
                           {"kB", 1e3},
                           {"KB", 1e3},
                           {"MB", 1e6},
                           {"GB", 1e9},
                           {"TB", 1e12},
                           {"KiB", 1024.0},
                           {"MiB", 1048576.0},
                           {"GiB", 1073741824.0},
                           {"TiB", 1099511627776.0}};

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool IsPath(std::string_view text) {
  return text.find('/') != std::string_view::npos || EndsWith(text, ".yaml") || EndsWith(text, ".yml");
}

Status ReadInto(const YamlText& yaml, const YAML::Node& root, Device& device) {
  const std::vector<std::string> keys = {"name", "about", "memory", "memory-at-best"};
  RETURN_IF_ERROR(
      yaml.ForKeys(root, keys, [&](const std::string& key, const YAML::Node&, const YAML::Node& value) -> Status {
        ASSIGN_OR_RETURN(const std::string word, yaml.Scalar(key, value));
        if (key == "name") device.name = word;
        if (key == "about") device.about = word;
        if (key == "name" || key == "about") return OkStatus();
        const auto bytes = ParseBytes(word);
        if (!bytes.ok()) return UsageError("{}: {}: {}", yaml.Place(value), key, Message(bytes.status()));
        (key == "memory" ? device.memory : device.memory_at_best) = *bytes;
        return OkStatus();
      }));
  if (device.name.empty()) return UsageError("{}: a device needs a name", yaml.name());
  if (device.memory == 0)
    return UsageError("{}: a device needs its memory for models, as in 'memory: 2 GB'", yaml.name());
  if (device.memory_at_best == 0) device.memory_at_best = device.memory;
  if (device.memory_at_best < device.memory) {
    return UsageError("{}: memory-at-best is less than memory", yaml.name());
  }
  return OkStatus();
}

}  // namespace

StatusOr<int64_t> ParseBytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const Unit* unit = nullptr;
  for (const Unit& u : kUnits) {
    if (u.name == rest) unit = &u;
  }
  if (error != std::errc() || unit == nullptr || !std::isfinite(number)) {
    return UsageError("'{}' is no size; it has the form 4 GB, 512 MiB or 1000000", text);
  }
  const double bytes = std::floor(number * unit->bytes);
  if (!(bytes >= 1) || bytes >= kTooLarge) return UsageError("'{}' is no size that a device has", text);
  return static_cast<int64_t>(bytes);
}

StatusOr<Device> ReadDeviceText(const std::string& text, const std::string& name) {
  Device device;
  const YamlText yaml(name);
  RETURN_IF_ERROR(yaml.Read(text, [&](const YAML::Node& root) { return ReadInto(yaml, root, device); }));
  return device;
}

std::vector<std::string> DeviceNames() { return BuiltInNames(kFolder); }

StatusOr<Device> FindDevice(const std::string& name_or_path) {
  if (const auto text = BuiltInText(kFolder, name_or_path)) {
    return ReadDeviceText(std::string(*text), fmt::format("{}{}.yaml", kFolder, name_or_path));
  }
  if (!IsPath(name_or_path)) {
    return UsageError("there is no device '{}'; there are {}, and files, as in ./my-board.yaml", name_or_path,
                      fmt::join(DeviceNames(), ", "));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(name_or_path, kLongest));
  return ReadDeviceText(text, name_or_path);
}

}  // namespace quant
