// The models that the fuzzer starts from. Nothing binary is checked in: they are the files of ONNX's backend cases,
// models of other tests, and texts written to be hostile.
#pragma once

#include <string>
#include <vector>

namespace quant {

struct CorpusEntry {
  std::string name;
  std::string bytes;
};

// Of each path, a file or a folder with all below it, in the order of their names: models (.onnx) of at most 64 KiB,
// and models as text (.txt: lines that begin with # part one from the next; what has no ir_version is left out; "# EACH
// a b" says which values $V stands for in those that follow, each a model of its own). A model beside a test_data_set_0
// comes twice: as it is, and with the inputs stored there made constants, floats apart, as sizes and indices decide
// what happens. Throws when a text is no model.
std::vector<CorpusEntry> LoadCorpus(const std::vector<std::string>& paths);

}  // namespace quant
