#include <array>

#include "libquant/config/quantize_options.h"

namespace quant {
namespace {

// TensorRT refuses scales that are not positive, so `portable` has none; ONNX Runtime takes them.
constexpr std::array<Target, 2> kTargets = {{
    {"portable", false, "what every runtime takes: positive scales only"},
    {"onnxruntime-cpu", true, "ONNX Runtime on a CPU: 4-bit scales may be negative where that is more exact"},
}};

}  // namespace

const Target* FindTarget(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

std::vector<std::string_view> TargetNames() {
  std::vector<std::string_view> names;
  for (const Target& target : kTargets) names.push_back(target.name);
  return names;
}

}  // namespace quant
