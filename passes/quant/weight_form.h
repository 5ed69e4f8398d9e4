// In which form one weight is stored for the operators that read it: the matrix it is seen as, the layout of its
// codes, and which nodes stand between codes and reader. Decided from names, shapes and roles alone.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/weight_producer.h"
#include "passes/quant/weight_inventory.h"

namespace quant {

enum class FormKind {
  kQdqMatrix,  // codes [K, N] -> DequantizeLinear -> MatMul or Gemm (transB undone)
  kQdqKernel,  // codes [M, rest] -> DequantizeLinear -> Reshape -> Conv; per channel in the kernel's own dims
  kNBits,      // the node becomes com.microsoft MatMulNBits
};

struct WeightForm {
  FormKind kind = FormKind::kQdqMatrix;
  MatrixView view;
  CodeLayout layout = CodeLayout::kReductionMajor;
  QuantSpec spec;
  DType activation = DType::kFloat;  // the type the reader computes in
  std::string note;                  // why it differs from what was asked, if it does
  std::string warning;               // what it costs at run time, if it does
};

// The form, or the sentence that says why there is none.
std::variant<WeightForm, std::string> ChooseForm(const Graph& graph, const WeightSite& site,
                                                 const QuantizeOptions& options);

// The same weight, quantized: nothing is read yet.
StatusOr<QuantizedWeight> QuantizeInForm(const Value& weight, const WeightForm& form);

}  // namespace quant
