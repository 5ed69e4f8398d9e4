// Damage to a model that still is one for protobuf, so that it reaches checks of operators, and kernels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "libquant/model/onnx_version.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/odd_values.h"

namespace quant {

class ModelMutator {
 public:
  explicit ModelMutator(const std::vector<CorpusEntry>& corpus);

  // One to five changes of attributes, inputs, operators, tensors, types, opsets or nodes; often all declared shapes
  // are forgotten, so that inference finds less to refuse; sometimes nodes of `donor` are appended. What is no model is
  // returned as it came.
  std::string Mutate(const std::string& bytes, const std::string& donor, Random& random) const;

 private:
  void MutateOnce(onnx::ModelProto& model, Random& random) const;
  void MutateNode(onnx::GraphProto& graph, onnx::NodeProto& node, Random& random) const;
  void AddAttribute(onnx::NodeProto& node, Random& random) const;
  void ChangeOperator(onnx::NodeProto& node, Random& random) const;
  void AppendNode(onnx::GraphProto& graph, Random& random) const;

  std::map<std::string, std::vector<onnx::AttributeProto>> attributes_;  // seen in the corpus, by operator
};

}  // namespace quant
