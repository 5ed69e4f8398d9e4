#include "libquant/config/integer_rules.h"

#include <algorithm>

namespace quant {
namespace {

bool Has(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

bool IntegerRules::HasKernel(std::string_view op_type) const { return Has(kernels, op_type); }
bool IntegerRules::MayEndInFloat(std::string_view op_type) const { return Has(float_outputs, op_type); }
bool IntegerRules::Moves(std::string_view op_type) const { return Has(moves, op_type); }

}  // namespace quant
