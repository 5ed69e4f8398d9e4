// The files of configs/, built into the program (cmake/NibbleConfigs.cmake), so that it needs none beside it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quant {

// Names of the files of a folder ("targets/"), without ".yaml", sorted.
std::vector<std::string> BuiltInNames(std::string_view folder);
std::optional<std::string_view> BuiltInText(std::string_view folder, std::string_view name);

}  // namespace quant
