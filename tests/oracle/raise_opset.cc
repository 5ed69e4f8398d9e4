// raise_opset IN OUT VERSION: converts a model by our table and writes it, for the oracle of opset conversion.
#include <cstdio>
#include <cstdlib>

#include "libquant/model/check.h"
#include "libquant/model/opset.h"
#include "libquant/model/read.h"
#include "libquant/model/write.h"

namespace {

quant::Status Run(const char* in, const char* out, int64_t version) {
  ASSIGN_OR_RETURN(quant::Model model, quant::ReadModel(in));
  RETURN_IF_ERROR(quant::InferShapes(model));
  RETURN_IF_ERROR(quant::RaiseOpset(model, version));
  RETURN_IF_ERROR(quant::Verify(model.graph));
  return quant::WriteModel(model, out).status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const quant::Status status = Run(argv[1], argv[2], std::atoll(argv[3]));
  if (!status.ok()) std::fprintf(stderr, "%s\n", quant::Message(status).c_str());
  return quant::ExitCode(status);
}
