// Node attributes: an ordered list of named values, as ONNX has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libquant/ir/tensor.h"

namespace quant {

using RegionId = int32_t;

// A body (If branch, Loop or Scan body) held as an attribute.
struct BodyRef {
  RegionId region;
  bool operator==(const BodyRef&) const = default;
};

// What we carry without looking inside (sparse tensors, type protos): it lives in Attribute::extra.
struct OpaqueValue {};

using AttributeValue =
    std::variant<OpaqueValue, int64_t, float, std::string, Tensor, BodyRef, std::vector<int64_t>, std::vector<float>,
                 std::vector<std::string>, std::vector<Tensor>, std::vector<BodyRef>>;

struct Attribute {
  std::string name;
  AttributeValue value;
  // In a function body: the name of the function's attribute whose value this takes; then `value` is opaque.
  std::string ref_name;
  // Serialized fields of the file that the IR doesn't model; written back unchanged.
  std::string extra;
};

class Attributes {
 public:
  const Attribute* Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  // Value of the asked type, or the default when absent or of another type (the checker has refused those).
  int64_t Int(std::string_view name, int64_t otherwise) const;
  float Float(std::string_view name, float otherwise) const;
  std::string String(std::string_view name, std::string otherwise) const;
  std::vector<int64_t> Ints(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<float> Floats(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;
  const Tensor* TensorOrNull(std::string_view name) const;

  void Set(std::string name, AttributeValue value);
  void Remove(std::string_view name);

  std::vector<Attribute>& list() { return list_; }
  const std::vector<Attribute>& list() const { return list_; }

 private:
  std::vector<Attribute> list_;
};

}  // namespace quant
