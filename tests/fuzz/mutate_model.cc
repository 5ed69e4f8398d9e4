#include "tests/fuzz/mutate_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "libquant/ops/op_def.h"
#include "tests/fuzz/mutate_tensor.h"

namespace quant {
namespace {

constexpr size_t kLargestAttribute = 512;

int At(Random& random, int size) { return static_cast<int>(Below(random, static_cast<size_t>(size))); }

// The main graph and the bodies in it.
void CollectGraphs(onnx::GraphProto* graph, std::vector<onnx::GraphProto*>& out) {
  out.push_back(graph);
  for (auto& node : *graph->mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) CollectGraphs(attribute.mutable_g(), out);
    }
  }
}

std::vector<std::string> NamesIn(const onnx::GraphProto& graph) {
  std::vector<std::string> out;
  for (const auto& input : graph.input()) out.push_back(input.name());
  for (const auto& tensor : graph.initializer()) out.push_back(tensor.name());
  for (const auto& node : graph.node()) out.insert(out.end(), node.output().begin(), node.output().end());
  if (out.empty()) out.emplace_back();
  return out;
}

void ForgetShapes(onnx::GraphProto& graph) {
  graph.clear_value_info();
  for (auto* list : {graph.mutable_input(), graph.mutable_output()}) {
    for (auto& info : *list) {
      if (info.type().has_tensor_type()) info.mutable_type()->mutable_tensor_type()->clear_shape();
    }
  }
}

void MutateInfo(onnx::ValueInfoProto& info, Random& random) {
  if (!info.type().has_tensor_type()) return;
  auto& type = *info.mutable_type()->mutable_tensor_type();
  const size_t choice = Below(random, 6);
  if (choice == 0) {
    type.clear_shape();
  } else if (choice == 1) {
    type.set_elem_type(1 + At(random, 26));
  } else if (choice == 2) {
    type.mutable_shape()->add_dim()->set_dim_value(static_cast<int64_t>(Below(random, 4)));
  } else if (type.shape().dim_size() > 0) {
    auto& dim = *type.mutable_shape()->mutable_dim(At(random, type.shape().dim_size()));
    if (choice == 3) dim.clear_value();
    if (choice == 4) dim.set_dim_value(static_cast<int64_t>(Below(random, 10)));
    if (choice == 5) dim.set_dim_value(OddInteger(random));
  }
}

void MutateInts(onnx::AttributeProto& attribute, Random& random) {
  const size_t choice = Below(random, 6);
  auto& ints = *attribute.mutable_ints();
  if (choice == 0) ints.Add(OddInteger(random));
  if (choice == 1 && !ints.empty()) ints.RemoveLast();
  if (choice == 2 && OneIn(random, 3)) ints.Clear();
  if (choice >= 2 && !ints.empty()) ints.Set(At(random, ints.size()), OddInteger(random));
}

void MutateAttribute(onnx::AttributeProto& attribute, Random& random) {
  using A = onnx::AttributeProto;
  switch (attribute.type()) {
    case A::INT:
      return attribute.set_i(OddInteger(random));
    case A::FLOAT:
      return attribute.set_f(static_cast<float>(OddReal(random)));
    case A::INTS:
      return MutateInts(attribute, random);
    case A::FLOATS:
      attribute.add_floats(static_cast<float>(OddReal(random)));
      return attribute.mutable_floats()->SwapElements(0, At(random, attribute.floats_size()));
    case A::STRING:
      if (!attribute.s().empty()) attribute.mutable_s()->pop_back();
      return;
    case A::TENSOR:
      return MutateTensor(*attribute.mutable_t(), random);
    default:
      return;
  }
}

void MutateInputs(onnx::NodeProto& node, const std::vector<std::string>& names, Random& random) {
  const int count = node.input_size();
  const size_t choice = Below(random, 6);
  if (count == 0 || choice == 0) {
    node.add_input(OneOf(random, names));
    return;
  }
  const int at = At(random, count);
  if (choice == 1) node.mutable_input()->RemoveLast();
  if (choice == 2) node.mutable_input()->SwapElements(at, At(random, count));
  if (choice == 3) node.set_input(at, "");
  if (choice >= 4) node.set_input(at, OneOf(random, names));
}

void MutateOutputs(onnx::NodeProto& node, Random& random) {
  if (node.output_size() > 1 && OneIn(random, 2)) {
    node.set_output(1 + At(random, node.output_size() - 1), "");
  } else {
    node.add_output(fmt::format("more{}", random()));
  }
}

void DeclareOutput(onnx::GraphProto& graph, const std::string& name, int dtype) {
  auto& output = *graph.add_output();
  output.set_name(name);
  output.mutable_type()->mutable_tensor_type()->set_elem_type(dtype);
}

void Rename(onnx::GraphProto& graph, const std::string& prefix) {
  const auto rename = [&](std::string* name) {
    if (!name->empty()) name->insert(0, prefix);
  };
  for (auto& info : *graph.mutable_input()) rename(info.mutable_name());
  for (auto& info : *graph.mutable_output()) rename(info.mutable_name());
  for (auto& tensor : *graph.mutable_initializer()) rename(tensor.mutable_name());
  for (auto& node : *graph.mutable_node()) {
    for (auto& name : *node.mutable_input()) rename(&name);
    for (auto& name : *node.mutable_output()) rename(&name);
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) Rename(*attribute.mutable_g(), prefix);
    }
  }
}

// Appends the donor's nodes; one of its inputs becomes a value of `graph`.
void Graft(onnx::GraphProto& graph, onnx::GraphProto donor, Random& random) {
  Rename(donor, fmt::format("d{}_", random() % 1000));
  const std::vector<std::string> names = NamesIn(graph);
  const int fed = donor.input_size() == 0 ? -1 : At(random, donor.input_size());
  for (int i = 0; i < donor.input_size(); ++i) {
    if (i != fed) {
      *graph.add_input() = donor.input(i);
      continue;
    }
    for (auto& node : *donor.mutable_node()) {
      for (auto& name : *node.mutable_input()) {
        if (name == donor.input(i).name()) name = names.back();
      }
    }
  }
  graph.mutable_initializer()->MergeFrom(donor.initializer());
  graph.mutable_node()->MergeFrom(donor.node());
  if (OneIn(random, 2)) graph.clear_output();  // so that the joint may be done in one go
  graph.mutable_output()->MergeFrom(donor.output());
}

}  // namespace

ModelMutator::ModelMutator(const std::vector<CorpusEntry>& corpus) {
  std::set<std::string> seen;
  for (const CorpusEntry& entry : corpus) {
    onnx::ModelProto model;
    if (!model.ParseFromString(entry.bytes)) continue;
    std::vector<onnx::GraphProto*> graphs;
    CollectGraphs(model.mutable_graph(), graphs);
    for (const onnx::GraphProto* graph : graphs) {
      for (const auto& node : graph->node()) {
        for (const auto& attribute : node.attribute()) {
          const std::string bytes = attribute.SerializeAsString();
          if (attribute.has_g() || bytes.size() > kLargestAttribute) continue;
          if (seen.insert(node.op_type() + bytes).second) attributes_[node.op_type()].push_back(attribute);
        }
      }
    }
  }
}

// One that the operator has elsewhere; in the place of the node's own of that name.
void ModelMutator::AddAttribute(onnx::NodeProto& node, Random& random) const {
  const auto known = attributes_.find(node.op_type());
  if (known == attributes_.end()) return;
  const onnx::AttributeProto& attribute = OneOf(random, known->second);
  for (auto& own : *node.mutable_attribute()) {
    if (own.name() != attribute.name()) continue;
    own = attribute;
    return;
  }
  *node.add_attribute() = attribute;
}

void ModelMutator::ChangeOperator(onnx::NodeProto& node, Random& random) const {
  const OpDef& op = *OneOf(random, AllOps());
  node.set_op_type(std::string(op.name));
  node.set_domain(std::string(op.domain));
  if (OneIn(random, 6)) return;
  node.clear_attribute();
  for (size_t count = Below(random, 4); count > 0; --count) AddAttribute(node, random);
}

void ModelMutator::AppendNode(onnx::GraphProto& graph, Random& random) const {
  const std::vector<std::string> names = NamesIn(graph);
  auto& node = *graph.add_node();
  ChangeOperator(node, random);
  for (size_t inputs = 1 + Below(random, 3); inputs > 0; --inputs) {
    node.add_input(inputs == 1 ? names.back() : OneOf(random, names));
  }
  node.add_output(fmt::format("made{}", random()));
  DeclareOutput(graph, node.output(0), onnx::TensorProto::FLOAT);
}

void ModelMutator::MutateNode(onnx::GraphProto& graph, onnx::NodeProto& node, Random& random) const {
  const int attributes = node.attribute_size();
  switch (Below(random, 9)) {
    case 0:
      return ChangeOperator(node, random);
    case 1:
      return MutateInputs(node, NamesIn(graph), random);
    case 2:
      return MutateOutputs(node, random);
    case 3:
      if (attributes > 0) node.mutable_attribute()->DeleteSubrange(At(random, attributes), 1);
      return;
    case 4:
      return AddAttribute(node, random);
    default:
      if (attributes > 0) MutateAttribute(*node.mutable_attribute(At(random, attributes)), random);
      return;
  }
}

void ModelMutator::MutateOnce(onnx::ModelProto& model, Random& random) const {
  std::vector<onnx::GraphProto*> graphs;
  CollectGraphs(model.mutable_graph(), graphs);
  onnx::GraphProto& graph = *OneOf(random, graphs);
  switch (Below(random, 12)) {
    case 0:
      if (model.opset_import_size() > 0) {
        model.mutable_opset_import(At(random, model.opset_import_size()))->set_version(1 + At(random, 27));
      }
      return;
    case 1:
    case 2:
      if (graph.input_size() > 0) MutateInfo(*graph.mutable_input(At(random, graph.input_size())), random);
      return;
    case 3:
    case 4:
    case 5:
      if (graph.initializer_size() > 0) {
        MutateTensor(*graph.mutable_initializer(At(random, graph.initializer_size())), random);
        return;
      }
      break;
    case 6:
      return AppendNode(graph, random);
    case 7:
      if (graph.node_size() > 1 && OneIn(random, 3)) {
        graph.mutable_node()->DeleteSubrange(At(random, graph.node_size()), 1);
        return;
      }
      break;
    default:
      break;
  }
  if (graph.node_size() > 0) MutateNode(graph, *graph.mutable_node(At(random, graph.node_size())), random);
}

std::string ModelMutator::Mutate(const std::string& bytes, const std::string& donor, Random& random) const {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes) || !model.has_graph()) return bytes;
  if (onnx::ModelProto other; OneIn(random, 6) && other.ParseFromString(donor)) {
    Graft(*model.mutable_graph(), other.graph(), random);
  }
  for (size_t count = 1 + Below(random, 5); count > 0; --count) MutateOnce(model, random);
  if (OneIn(random, 2)) ForgetShapes(*model.mutable_graph());
  const auto imports = [&](const auto& o) { return o.domain() == "com.microsoft"; };
  if (std::none_of(model.opset_import().begin(), model.opset_import().end(), imports)) {
    auto& opset = *model.add_opset_import();
    opset.set_domain("com.microsoft");
    opset.set_version(1);
  }
  return model.SerializeAsString();
}

}  // namespace quant
