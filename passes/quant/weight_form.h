// In which form one weight is stored for the operators that read it: the matrix it is seen as, the layout of its
// codes, and which nodes stand between codes and reader. Decided from names, shapes and roles alone.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "libquant/config/quantize_options.h"
#include "libquant/ir/graph.h"
#include "libquant/numerics/weight_producer.h"
#include "passes/quant/weight_inventory.h"

namespace quant {

enum class FormKind {
  kDequantize,  // codes -> DequantizeLinear [-> Reshape] -> reader
  kGatherRows,  // Gather(codes), Gather(scales), multiplied: only the rows that are looked up
  kDynamic,     // the product in integers, its activation quantized in each run: MatMulInteger, ConvInteger
  kNBits,       // MatMul, Gemm -> MatMulNBits; Gather -> GatherBlockQuantized
};

struct WeightForm {
  FormKind kind = FormKind::kDequantize;
  Tensor source;  // what is quantized: the weight as its readers see it, before a transposition that `view` undoes
  MatrixView view;
  CodeLayout layout = CodeLayout::kReductionMajor;
  QuantSpec spec;
  DType activation = DType::kFloat;  // the type the reader computes in
  Dims code_dims;                    // of the codes, where they differ from the layout's own
  int64_t axis = 0;                  // of DequantizeLinear: the channels', or with `block` the reduction's
  int64_t block = 0;                 // values per scale along `axis`; 0: no blocks
  Dims reshaped;                     // the reader's dims, where the codes have others; else empty
  bool own_codes = false;            // each reader gets codes of its own
  bool plain_zero_points = true;     // false: the reader takes a missing zero point for the middle code
  std::string requested;             // the operator that the user asked for by name, where that was needed
  std::string note;                  // why it differs from what was asked, if it does
  std::string warning;               // what it costs at run time, if it does
};

// Readers that share a form, and with it one set of codes (or each its own: see own_codes).
struct FormGroup {
  WeightForm form;
  std::vector<WeightReader> readers;
};

// The forms, one for each kind of reader, or the sentence that says why there is none: a weight that one reader needs
// as float stays float for all. `format` is what its rule or the options ask for.
std::variant<std::vector<FormGroup>, std::string> ChooseForms(const Graph& graph, const WeightSite& site,
                                                              const WeightFormat& format,
                                                              const QuantizeOptions& options);

// The same weight, quantized: nothing is read yet. `name` is for errors.
StatusOr<QuantizedWeight> QuantizeInForm(const std::string& name, const WeightForm& form);

// Sets of codes that the file holds for the group.
int64_t CodeSets(const FormGroup& group);

}  // namespace quant
