// The form in which one reader of a weight takes it quantized, by the reader's role.
#pragma once

#include <string>
#include <variant>

#include "passes/quant/weight_form.h"

namespace quant {

// The form, or the sentence that says why there is none.
std::variant<WeightForm, std::string> FormForReader(const Graph& graph, const WeightReader& reader,
                                                    const WeightFormat& format, const QuantizeOptions& options);

// Adds a sentence to what the form costs at run time.
void AddWarning(WeightForm& form, const std::string& text);

}  // namespace quant
