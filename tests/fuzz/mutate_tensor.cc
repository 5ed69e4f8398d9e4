#include "tests/fuzz/mutate_tensor.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "libquant/ir/tensor.h"

namespace quant {
namespace {

constexpr int64_t kMostBytes = 4096;

template <typename T>
void PutAs(double value, char* to) {
  const auto converted = static_cast<T>(static_cast<float>(value));
  std::memcpy(to, &converted, sizeof converted);
}

// Moves values of typed fields to raw_data.
void MakeRaw(onnx::TensorProto& tensor, size_t width) {
  std::string raw = tensor.raw_data();
  const auto append = [&](const auto& field, size_t bytes) {
    for (const auto entry : field) raw.append(reinterpret_cast<const char*>(&entry), std::min(bytes, sizeof entry));
  };
  append(tensor.float_data(), 4);
  append(tensor.double_data(), 8);
  append(tensor.int64_data(), 8);
  append(tensor.uint64_data(), width);
  append(tensor.int32_data(), width);
  tensor.clear_float_data();
  tensor.clear_double_data();
  tensor.clear_int64_data();
  tensor.clear_uint64_data();
  tensor.clear_int32_data();
  tensor.set_raw_data(std::move(raw));
}

void PutOdd(DType dtype, Random& random, char* to, size_t width) {
  const double real = OddReal(random);
  const int64_t integer = OddInteger(random);
  if (dtype == DType::kFloat) return PutAs<float>(real, to);
  if (dtype == DType::kDouble) return PutAs<double>(real, to);
  if (dtype == DType::kFloat16) return PutAs<float16>(real, to);
  if (dtype == DType::kBfloat16) return PutAs<bfloat16>(real, to);
  std::memcpy(to, &integer, std::min(width, sizeof integer));
}

// As many bytes as the dims ask for, the old ones again and again; dims that ask for too many become [2].
void FitData(onnx::TensorProto& tensor) {
  const DType dtype = DTypeFromNumber(tensor.data_type());
  auto bytes = BytesFor(dtype, std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end()));
  if (!bytes || *bytes > kMostBytes) {
    tensor.clear_dims();
    tensor.add_dims(2);
    bytes = BytesFor(dtype, std::vector<int64_t>{2});
  }
  const auto wanted = static_cast<size_t>(bytes.value_or(0));
  const std::string old = tensor.raw_data().empty() ? std::string(8, '\1') : tensor.raw_data();
  std::string raw;
  while (raw.size() < wanted) raw += old;
  raw.resize(wanted);
  tensor.set_raw_data(std::move(raw));
}

void MutateDims(onnx::TensorProto& tensor, Random& random) {
  const auto small = [&] { return static_cast<int64_t>(Below(random, 9)); };
  const int rank = tensor.dims_size();
  switch (Below(random, 4)) {
    case 0:
      tensor.add_dims(OneIn(random, 2) ? 1 : small());
      break;
    case 1:
      if (rank > 0) tensor.mutable_dims()->RemoveLast();
      break;
    default:
      if (rank > 0) tensor.set_dims(static_cast<int>(Below(random, static_cast<size_t>(rank))), small());
      break;
  }
}

}  // namespace

void MutateTensor(onnx::TensorProto& tensor, Random& random) {
  const DType dtype = DTypeFromNumber(tensor.data_type());
  const int bits = InfoOf(dtype).bits;
  if (bits == 0 || tensor.data_location() == onnx::TensorProto::EXTERNAL) return;
  const auto width = static_cast<size_t>(std::max(bits / 8, 1));
  MakeRaw(tensor, width);
  const size_t choice = Below(random, 8);
  if (choice == 0) {
    tensor.set_data_type(1 + static_cast<int>(Below(random, 26)));
    if (tensor.data_type() == onnx::TensorProto::STRING) tensor.set_data_type(onnx::TensorProto::INT64);
    FitData(tensor);
  } else if (choice <= 3) {
    MutateDims(tensor, random);
    FitData(tensor);
  } else if (tensor.raw_data().size() >= width) {
    const size_t element = Below(random, tensor.raw_data().size() / width);
    PutOdd(dtype, random, tensor.mutable_raw_data()->data() + element * width, width);
  }
}

}  // namespace quant
