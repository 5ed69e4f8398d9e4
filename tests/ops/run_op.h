// Runs one operator on tensors, for tests.
#pragma once

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "libquant/base/parallel.h"
#include "libquant/ops/op_def.h"
#include "tests/catch.h"

namespace quant {

using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;
using Ints = std::vector<int64_t>;

struct OpCall {
  AttributeList attributes;
  int64_t version = 21;
  int outputs = 1;
};

// Inputs with an undefined dtype are left out.
inline StatusOr<std::vector<Tensor>> RunOp(const OpDef& op, const std::vector<Tensor>& inputs,
                                           const OpCall& call = {}) {
  Attributes attributes;
  for (const auto& [name, value] : call.attributes) attributes.Set(name, value);
  std::vector<const Tensor*> pointers;
  pointers.reserve(inputs.size());
  for (const Tensor& t : inputs) pointers.push_back(t.defined() ? &t : nullptr);
  const KernelContext::Allocator allocator = [](int64_t bytes) { return std::make_shared<Buffer>(bytes); };
  const bool wanted[8] = {true, true, true, true, true, true, true, true};
  const KernelCall kernel_call = {
      .attributes = attributes,
      .version = call.version,
      .inputs = pointers,
      .wanted = std::span(wanted, static_cast<size_t>(call.outputs)),
  };
  KernelContext context(kernel_call, allocator);
  RETURN_IF_ERROR(op.eval(context));
  return std::move(context.outputs());
}

inline Tensor RunOne(const OpDef& op, const std::vector<Tensor>& inputs, const OpCall& call = {}) {
  auto outputs = RunOp(op, inputs, call);
  INFO(op.name << ": " << Message(outputs.status()));
  REQUIRE(outputs.ok());
  return (*outputs)[0];
}

// The run must end in "your data is wrong" (or "not supported"), not in a result.
inline void RequireRefused(const OpDef& op, const std::vector<Tensor>& inputs, const OpCall& call = {}) {
  const auto outputs = RunOp(op, inputs, call);
  INFO(op.name << ": " << Message(outputs.status()));
  const int code = ExitCode(outputs.status());
  REQUIRE((code == 3 || code == 4));
}

inline int64_t Count(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// Standard normal float32 values, the same for the same seed.
inline Tensor RandomTensor(Dims dims, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Tensor t = Tensor::Allocate(DType::kFloat, std::move(dims));
  for (float& v : t.mutable_data<float>()) v = normal(generator);
  return t;
}

// Bytes of any pattern.
inline Tensor RandomBytes(DType dtype, Dims dims, uint32_t seed) {
  std::mt19937 generator(seed);
  Tensor t = Tensor::Allocate(dtype, std::move(dims));
  for (std::byte& b : t.mutable_bytes()) b = static_cast<std::byte>(generator() & 0xff);
  return t;
}

template <typename T>
Tensor Make(Dims dims, std::vector<T> values) {
  return Tensor::Of<T>(std::move(dims), std::span<const T>(values));
}

template <typename To>
Tensor CastTo(const Tensor& t) {
  Tensor out = Tensor::Allocate(DTypeOf<To>(), t.dims());
  for (size_t i = 0; i < static_cast<size_t>(t.size()); ++i)
    out.mutable_data<To>()[i] = static_cast<To>(t.data<float>()[i]);
  return out;
}

// Every element within `tolerance` of the expected one, relative to the largest magnitude expected (at least 1).
template <typename T>
void RequireClose(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  REQUIRE(actual.dtype() == DTypeOf<T>());
  REQUIRE(static_cast<size_t>(actual.size()) == expected.size());
  double largest = 1, worst = 0;
  size_t at = 0;
  for (double v : expected) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual.data<T>()[i]) - expected[i]);
    if (!(difference <= worst)) worst = difference, at = i;
  }
  INFO("element " << at << " differs by " << worst << " where up to " << largest << " is expected");
  REQUIRE(worst <= tolerance * largest);
}

// The same bytes with 1, 2 and 8 threads.
inline void RequireThreadsAgree(const OpDef& op, const std::vector<Tensor>& inputs, const OpCall& call = {}) {
  std::vector<std::byte> first;
  for (int threads : {1, 2, 8}) {
    SetThreads(threads);
    const Tensor out = RunOne(op, inputs, call);
    std::vector<std::byte> bytes(out.bytes().begin(), out.bytes().end());
    if (first.empty()) first = bytes;
    INFO(op.name << " with " << threads << " threads");
    REQUIRE(bytes == first);
  }
  SetThreads(0);
}

}  // namespace quant
