#include <yaml-cpp/yaml.h>

#include "libquant/config/quantize_file.h"

namespace quant {
namespace {

std::string GroupSizeWord(const WeightFormat& format) {
  switch (format.granularity) {
    case Granularity::kChannel:
      return "channel";
    case Granularity::kTensor:
      return "tensor";
    case Granularity::kGroup:
      break;
  }
  return std::to_string(format.group_size);
}

void Put(YAML::Emitter& out, const std::string& key, const std::string& value) {
  out << YAML::Key << key << YAML::Value << value;
}

void PutList(YAML::Emitter& out, const std::string& key, const std::vector<std::string>& list) {
  if (list.empty()) return;
  out << YAML::Key << key << YAML::Value << YAML::BeginSeq;
  for (const std::string& entry : list) out << YAML::SingleQuoted << entry;
  out << YAML::EndSeq;
}

void PutRule(YAML::Emitter& out, const WeightRule& rule) {
  out << YAML::BeginMap;
  if (!rule.match.empty()) out << YAML::Key << "match" << YAML::Value << YAML::SingleQuoted << rule.match;
  if (!rule.op.empty()) Put(out, "op", rule.op);
  if (rule.skip) Put(out, "skip", "true");
  for (const auto& [key, value] : rule.format) Put(out, key, value);
  out << YAML::EndMap;
}

}  // namespace

std::string QuantizeFileText(const QuantizeOptions& options) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  Put(out, "weights", options.format.weights);
  Put(out, "group-size", GroupSizeWord(options.format));
  Put(out, "scheme", options.format.scheme == Scheme::kSymmetric ? "symmetric" : "asymmetric");
  if (options.format.scale_type != DType::kUndefined) {
    Put(out, "scale-type", options.format.scale_type == DType::kFloat16 ? "fp16" : "fp32");
  }
  Put(out, "emit", std::string(NameOf(options.emit)));
  if (options.activations != "none") Put(out, "activations", options.activations);
  if (options.integer_io) Put(out, "io", "integer");
  Put(out, "keep", options.keep == Keep::kHalf ? "fp16" : "fp32");
  if (options.accuracy_level_set) Put(out, "accuracy-level", std::to_string(options.accuracy_level));
  if (options.non_finite == NonFinite::kClamp) Put(out, "clamp-non-finite", "true");
  Put(out, "target", options.target.name);
  PutList(out, "skip", options.skip);
  PutList(out, "skip-op", options.skip_op);
  PutList(out, "only", options.only);
  PutList(out, "include-op", options.include_op);
  std::vector<std::string> improve;
  for (const Improvement& what : options.improve) improve.push_back(what.Label());
  PutList(out, "improve", improve);
  PutList(out, "gate", options.gate);
  if (!options.rules.empty()) {
    out << YAML::Key << "rules" << YAML::Value << YAML::BeginSeq;
    for (const WeightRule& rule : options.rules) PutRule(out, rule);
    out << YAML::EndSeq;
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace quant
