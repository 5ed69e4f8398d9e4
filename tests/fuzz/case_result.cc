#include "tests/fuzz/case_result.h"

namespace quant {

const char* NameOf(Stage stage) {
  static const char* const names[kStages] = {"loading",
                                             "planning",
                                             "running",
                                             "checking",
                                             "fusing",
                                             "fusing for ONNX Runtime",
                                             "fixing shapes",
                                             "raising the opset",
                                             "lowering the opset",
                                             "decomposing",
                                             "making half",
                                             "making bfloat16"};
  return names[static_cast<int>(stage)];
}

bool Ending::allowed() const {
  const int code = ExitCode(status);
  return code == 0 || code == 3 || code == 4;
}

}  // namespace quant
