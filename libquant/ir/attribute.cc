#include "libquant/ir/attribute.h"

#include <algorithm>

namespace quant {
namespace {

template <typename T>
const T* ValueOf(const Attribute* attribute) {
  return attribute == nullptr ? nullptr : std::get_if<T>(&attribute->value);
}

template <typename T>
T ValueOr(const Attribute* attribute, T otherwise) {
  const T* value = ValueOf<T>(attribute);
  return value != nullptr ? *value : std::move(otherwise);
}

}  // namespace

const Attribute* Attributes::Find(std::string_view name) const {
  auto it = std::find_if(list_.begin(), list_.end(), [&](const Attribute& a) { return a.name == name; });
  return it == list_.end() ? nullptr : &*it;
}

int64_t Attributes::Int(std::string_view name, int64_t otherwise) const { return ValueOr(Find(name), otherwise); }

float Attributes::Float(std::string_view name, float otherwise) const { return ValueOr(Find(name), otherwise); }

std::string Attributes::String(std::string_view name, std::string otherwise) const {
  return ValueOr(Find(name), std::move(otherwise));
}

std::vector<int64_t> Attributes::Ints(std::string_view name, std::vector<int64_t> otherwise) const {
  return ValueOr(Find(name), std::move(otherwise));
}

std::vector<float> Attributes::Floats(std::string_view name) const { return ValueOr(Find(name), std::vector<float>{}); }

std::vector<std::string> Attributes::Strings(std::string_view name) const {
  return ValueOr(Find(name), std::vector<std::string>{});
}

const Tensor* Attributes::TensorOrNull(std::string_view name) const { return ValueOf<Tensor>(Find(name)); }

void Attributes::Set(std::string name, AttributeValue value) {
  for (Attribute& a : list_) {
    if (a.name == name) {
      a.value = std::move(value);
      a.ref_name.clear();
      return;
    }
  }
  list_.push_back({std::move(name), std::move(value), {}, {}});
}

void Attributes::Remove(std::string_view name) {
  std::erase_if(list_, [&](const Attribute& a) { return a.name == name; });
}

}  // namespace quant
