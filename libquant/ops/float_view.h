// Floating-point tensors of any width as float32 or double arrays: a kernel is written once for the type it computes
// in; float16 and bfloat16 are converted on the way in and rounded once on the way out.
#pragma once

#include <memory>
#include <utility>

#include "libquant/ops/op_def.h"

namespace quant {

// Runs f(T{}) with the type that values of `dtype` are computed in: float for float32, float16 and bfloat16, double
// for float64. Unsupported for others.
template <typename F>
Status WithComputeType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kFloat16:
    case DType::kBfloat16:
      return f(float{});
    case DType::kDouble:
      return f(double{});
    default:
      return Unsupported("elements of type {} are not supported here", NameOf(dtype));
  }
}

// Converts between floating-point types, rounding to nearest even. DataError for other types.
Status ConvertFloats(const Tensor& tensor, float* out);
Status ConvertFloats(const Tensor& tensor, double* out);
void RoundFloats(const float* values, int64_t count, DType dtype, std::byte* out);

// DataError unless the inputs that are there have the dtype of input 0.
Status SameTypes(const KernelContext& context, std::initializer_list<int> inputs);

// A tensor's elements as T: its own memory when that is its type, else a converted copy. Null data when left out.
template <typename T>
class FloatInput {
 public:
  static StatusOr<FloatInput> Of(const KernelContext& context, const Tensor* tensor) {
    FloatInput out;
    if (tensor == nullptr) return out;
    if (tensor->dtype() == DTypeOf<T>()) {
      out.data_ = tensor->data<T>().data();
      return out;
    }
    out.copy_ = context.Scratch(tensor->size() * static_cast<int64_t>(sizeof(T)));
    T* copy = reinterpret_cast<T*>(out.copy_->data());
    RETURN_IF_ERROR(ConvertFloats(*tensor, copy));
    out.data_ = copy;
    return out;
  }
  const T* data() const { return data_; }

 private:
  const T* data_ = nullptr;
  std::shared_ptr<Buffer> copy_;
};

// Output i, written as T; Finish() rounds to the output's type where that differs.
template <typename T>
class FloatOutput {
 public:
  static StatusOr<FloatOutput> Make(KernelContext& context, int i, DType dtype, Dims dims) {
    return Over(context, context.Allocate(i, dtype, std::move(dims)));
  }
  // The same where KernelContext::AllocateOverInput may be used.
  static StatusOr<FloatOutput> MakeOverInput(KernelContext& context, int i, DType dtype, Dims dims) {
    return Over(context, context.AllocateOverInput(i, dtype, std::move(dims)));
  }
  T* data() const { return data_; }
  int64_t size() const { return tensor_->size(); }
  Status Finish() {
    if constexpr (std::is_same_v<T, float>) {
      if (copy_ != nullptr) RoundFloats(data_, size(), tensor_->dtype(), tensor_->mutable_bytes().data());
    }
    return OkStatus();
  }

 private:
  static StatusOr<FloatOutput> Over(KernelContext& context, StatusOr<Tensor*> tensor) {
    FloatOutput out;
    ASSIGN_OR_RETURN(out.tensor_, std::move(tensor));
    const DType dtype = out.tensor_->dtype();
    if (dtype == DTypeOf<T>()) {
      out.data_ = out.tensor_->template mutable_data<T>().data();
      return out;
    }
    out.copy_ = context.Scratch(out.tensor_->size() * static_cast<int64_t>(sizeof(T)));
    out.data_ = reinterpret_cast<T*>(out.copy_->data());
    return out;
  }
  Tensor* tensor_ = nullptr;
  T* data_ = nullptr;
  std::shared_ptr<Buffer> copy_;
};

}  // namespace quant
