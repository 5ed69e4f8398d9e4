#include "libquant/ops/float_view.h"

#include <Eigen/Core>

namespace quant {
namespace {

template <typename From, typename To>
void Cast(const void* from, int64_t count, void* to) {
  using Source = Eigen::Map<const Eigen::Array<From, Eigen::Dynamic, 1>>;
  using Target = Eigen::Map<Eigen::Array<To, Eigen::Dynamic, 1>>;
  Target(static_cast<To*>(to), count) = Source(static_cast<const From*>(from), count).template cast<To>();
}

template <typename To>
Status Convert(const Tensor& tensor, To* out) {
  if (!tensor.is_owned()) return DataError("{} has no numbers", Describe(tensor));  // strings
  const void* in = tensor.bytes().data();
  switch (tensor.dtype()) {
    case DType::kFloat:
      Cast<float, To>(in, tensor.size(), out);
      return OkStatus();
    case DType::kDouble:
      Cast<double, To>(in, tensor.size(), out);
      return OkStatus();
    case DType::kFloat16:
      Cast<float16, To>(in, tensor.size(), out);
      return OkStatus();
    case DType::kBfloat16:
      Cast<bfloat16, To>(in, tensor.size(), out);
      return OkStatus();
    default:
      return DataError("elements of type {} stand where floating-point ones belong", NameOf(tensor.dtype()));
  }
}

}  // namespace

Status ConvertFloats(const Tensor& tensor, float* out) { return Convert(tensor, out); }
Status ConvertFloats(const Tensor& tensor, double* out) { return Convert(tensor, out); }

void RoundFloats(const float* values, int64_t count, DType dtype, std::byte* out) {
  switch (dtype) {
    case DType::kFloat16:
      return Cast<float, float16>(values, count, out);
    case DType::kBfloat16:
      return Cast<float, bfloat16>(values, count, out);
    case DType::kDouble:
      return Cast<float, double>(values, count, out);
    default:
      return Cast<float, float>(values, count, out);
  }
}

Status SameTypes(const KernelContext& context, std::initializer_list<int> inputs) {
  const DType dtype = context.in(0).dtype();
  for (int i : inputs) {
    const Tensor* t = context.input(i);
    if (t != nullptr && t->dtype() != dtype) {
      return DataError("input {} is {} where input 0 is {}", i, NameOf(t->dtype()), NameOf(dtype));
    }
  }
  return OkStatus();
}

}  // namespace quant
