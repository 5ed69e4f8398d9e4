#include "passes/quant/reader_form.h"

#include <algorithm>
#include <bit>
#include <set>

#include "libquant/base/checked.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

using Answer = std::variant<WeightForm, std::string>;

constexpr std::string_view kEveryRun = "ONNX Runtime dequantizes on every run";
// Values moved towards their reader that are followed before giving up.
constexpr size_t kMaxFollowed = 256;

bool IsKernelBlock(int64_t size) {
  return size >= 16 && size <= 256 && std::has_single_bit(static_cast<uint64_t>(size));
}

// The smallest block of MatMulNBits that holds a whole reduction.
int64_t BlockAround(int64_t reduction) {
  return std::max<int64_t>(16, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(reduction))));
}

// Block of MatMulNBits in which a scale per channel or tensor is repeated: the one up to 128 that makes the rows of
// codes and float32 scales shortest, padding included; the larger on a tie. `whole`: only blocks that divide the
// reduction, 0 when there is none.
int64_t RepeatBlock(int64_t reduction, int bits, bool whole) {
  int64_t best = 0, least = 0;
  for (int64_t block = 128; block >= 16; block /= 2) {
    if (whole && reduction % block != 0) continue;
    const int64_t row = CeilDiv(reduction, block) * (block * bits / 8 + 4);
    if (best == 0 || row < least) {
      best = block;
      least = row;
    }
  }
  return best;
}

const OpDef* OpOf(const Node& node) { return FindOp(node.domain, node.op_type); }

bool IsTable(const Node& node, int32_t input) { return node.op_type == "Gather" && node.domain.empty() && input == 0; }

// The type of an input, or else the one the reader sees of the weight.
DType TypeOf(const Graph& graph, const WeightReader& reader, int input) {
  const Node& node = graph.node(reader.node);
  const auto i = static_cast<size_t>(input);
  const DType seen =
      i < node.inputs.size() && node.inputs[i] != kNoValue ? graph.value(node.inputs[i]).dtype : DType::kUndefined;
  return seen != DType::kUndefined ? seen : reader.dtype;
}

bool IsPlainGemm(const Node& node) {
  return node.attributes.Int("transA", 0) == 0 && node.attributes.Float("alpha", 1) == 1 &&
         node.attributes.Float("beta", 1) == 1;
}

// The recurrent operator that all readers of the node's outputs lead to through nodes that only move elements, as
// exporters write the reordering of gates; empty when one leads elsewhere.
std::string RecurrentBehind(const Graph& graph, NodeId start) {
  std::vector<NodeId> open = {start};
  std::set<NodeId> seen = {start};
  std::string found;
  while (!open.empty()) {
    const NodeId mover = open.back();
    open.pop_back();
    const OpDef* op = OpOf(graph.node(mover));
    const bool moves = op != nullptr &&
                       (std::holds_alternative<PassThrough>(op->role) || std::holds_alternative<SharedScale>(op->role));
    if (!moves || seen.size() > kMaxFollowed) return "";
    for (ValueId v : graph.node(mover).outputs) {
      if (v == kNoValue) continue;
      for (const Use& use : graph.value(v).uses) {
        if (use.node == kNoNode) return "";
        const OpDef* reader = OpOf(graph.node(use.node));
        const auto* role = reader == nullptr ? nullptr : std::get_if<Recurrent>(&reader->role);
        if (role != nullptr && (use.index == role->weights[0] || use.index == role->weights[1])) {
          found = graph.node(use.node).op_type;
        } else if (seen.insert(use.node).second) {
          open.push_back(use.node);
        }
      }
    }
  }
  return found;
}

// Makes one form; every step may end it with a reason.
class FormMaker {
 public:
  FormMaker(const Graph& graph, const WeightReader& reader, const WeightFormat& format, const QuantizeOptions& options)
      : node_(graph.node(reader.node)), reader_(reader), format_(format), options_(options), dims_(reader.dims()) {
    form_.source = reader.seen;
    form_.spec.format = FindFormat(format.weights);
    form_.spec.granularity = format.granularity;
    form_.spec.group_size = format.group_size;
    form_.spec.scheme = format.scheme;
    form_.spec.allow_negative_scales = options.target.negative_scales;
    form_.spec.non_finite = options.non_finite;
    if (options.activations != "none" && form_.spec.format->is_signed && form_.spec.format->bits == 8) {
      form_.spec.most_code = options.target.integer.most_signed_code;
    }
  }

  // Takes what the reader computes in; a reason when there are no scales of that type.
  std::string SetActivation(DType activation) {
    form_.activation = activation;
    if (activation != DType::kFloat && activation != DType::kFloat16) {
      return fmt::format("its reader computes in {}", NameOf(activation));
    }
    form_.spec.scale_dtype = format_.scale_type != DType::kUndefined ? format_.scale_type : activation;
    return "";
  }

  // For what no runtime makes use of: a reason unless the user asked for the operator.
  std::string Request(const std::string& op, std::string_view what) {
    const auto& asked = options_.include_op;
    if (std::find(asked.begin(), asked.end(), op) == asked.end()) {
      return fmt::format("{} stays float unless asked for: --include-op {}", what, op);
    }
    form_.requested = op;
    return "";
  }

  Answer Matrix(int64_t channel_axis) {
    if (options_.emit == Emit::kNBits && form_.requested.empty()) return NBits(channel_axis);
    form_.view = View2d(channel_axis);
    form_.own_codes = true;
    SingleGroupIsChannel();
    if (dynamic()) {
      if (node_.op_type == "Gemm" && !IsPlainGemm(node_)) return "Gemm with transA, alpha or beta";
      form_.kind = FormKind::kDynamic;
      return form_;
    }
    if (grouped()) {
      form_.block = form_.spec.group_size;
    } else {
      form_.axis = 1;
    }
    WarnOfSlowMatrix();
    return form_;
  }

  // MatMul's stack of matrices [..., K, N]: groups lie in one of them.
  Answer Batched() {
    const int64_t k = dims_[dims_.size() - 2], n = dims_.back();
    form_.view = {n, form_.source.size() / n, 1, n};
    form_.code_dims = dims_;
    if (!per_tensor()) {
      const bool whole = !grouped() || form_.spec.group_size >= k;
      if (!whole && k % form_.spec.group_size != 0) {
        form_.note = fmt::format("{} rows are no multiple of the group size: one group a matrix", k);
      }
      form_.block = whole || !form_.note.empty() ? k : form_.spec.group_size;
      form_.axis = static_cast<int64_t>(dims_.size()) - 2;
      InBlocks();
    }
    return SlowForm();
  }

  // Sums run over the last axis: a left operand [..., M, K], or recurrent weights [directions, gates, inputs].
  Answer Rows() {
    const int64_t k = dims_.back();
    const auto last = static_cast<int64_t>(dims_.size()) - 1;
    form_.layout = CodeLayout::kChannelMajor;
    form_.view = dims_.size() == 2 ? View2d(0) : MatrixView{form_.source.size() / k, k, k, 1};
    form_.code_dims = dims_;
    if (per_tensor()) return SlowForm();
    if (!grouped() || form_.spec.group_size >= k) {
      // One scale a row: an axis of its own where it is the only one that matters.
      form_.axis = last - 1;
      form_.spec.granularity = Granularity::kChannel;
      if (form_.view.channels == dims_[static_cast<size_t>(last - 1)]) return SlowForm();
      form_.block = k;
    } else {
      form_.block = form_.spec.group_size;
    }
    form_.axis = last;
    InBlocks();
    return SlowForm();
  }

  // A Gemm's transposed left operand [K, M].
  Answer Columns() {
    form_.view = View2d(1);
    SingleGroupIsChannel();
    form_.axis = grouped() ? 0 : 1;
    form_.block = grouped() ? form_.spec.group_size : 0;
    return SlowForm();
  }

  Answer Kernel() {
    const int64_t rest = form_.source.size() / dims_[0];
    form_.layout = CodeLayout::kChannelMajor;
    form_.view = {dims_[0], rest, rest, 1};
    SingleGroupIsChannel();
    if (grouped()) {
      form_.axis = 1;
      form_.block = form_.spec.group_size;
      form_.reshaped = dims_;
    } else {
      form_.code_dims = dims_;
    }
    if (dynamic()) {
      form_.kind = FormKind::kDynamic;
      AddWarning(form_, "ONNX Runtime's ConvInteger is slower than float");
      return form_;
    }
    return SlowerThanFloat();
  }

  // ConvTranspose's [C, M / group, kernel...]. Blocks lie along the input channels; a scale per channel is that of
  // axis 1, which the groups share, or where that axis has length 1 that of axis 0.
  Answer TransposedKernel() {
    const int64_t c = dims_[0], m = dims_[1], taps = form_.source.size() / (c * m);
    form_.code_dims = dims_;
    if (grouped() && c > form_.spec.group_size) {
      form_.view = {m * taps, c, 1, m * taps};
      form_.block = form_.spec.group_size;
      return SlowerThanFloat();
    }
    if (grouped()) {
      form_.spec.granularity = Granularity::kChannel;
      form_.note = "no more input channels than a group has";
    }
    if (m == 1) {
      form_.layout = CodeLayout::kChannelMajor;
      form_.view = {c, taps, taps, 1};
      return SlowerThanFloat();
    }
    form_.axis = 1;
    if (taps == 1) {
      form_.view = {m, c, 1, m};
    } else {
      form_.layout = CodeLayout::kSourceOrder;
      form_.view = {m, c * taps, 0, 0, taps};
    }
    return SlowerThanFloat();
  }

  Answer Table() {
    if (dims_.size() != 2) return fmt::format("a table of rank {}: only matrices are quantized", dims_.size());
    const int64_t axis = node_.attributes.Int("axis", 0);
    if (axis != 0 && axis != -2) return "its columns are looked up: only rows are";
    if (options_.emit == Emit::kNBits) {
      const int64_t block = grouped() ? form_.spec.group_size : RepeatBlock(dims_[1], form_.spec.format->bits, true);
      if (block > 0 && dims_[1] % block == 0) return NBits(0, block);
      if (grouped()) return RaggedTable();
    }
    form_.kind = FormKind::kGatherRows;
    form_.layout = CodeLayout::kChannelMajor;
    form_.view = View2d(0);
    if (form_.spec.format->bits < 8) {
      form_.spec.format = FindFormat(form_.spec.format->is_signed ? "int8" : "uint8");
      form_.note = "plain Gather takes no 4-bit codes";
    }
    if (grouped()) {
      form_.spec.granularity = Granularity::kChannel;
      form_.note += form_.note.empty() ? "one scale a row" : ", one scale a row";
    }
    return form_;
  }

 private:
  bool dynamic() const { return options_.activations == "dynamic"; }
  bool grouped() const { return form_.spec.granularity == Granularity::kGroup; }
  bool per_tensor() const { return form_.spec.granularity == Granularity::kTensor; }

  // The matrix that the reader sees, its channels along `axis`.
  MatrixView View2d(int64_t axis) const {
    const Dims& d = form_.source.dims();
    const bool rows = (axis == 0) != reader_.transposed;
    return rows ? MatrixView{d[0], d[1], d[1], 1} : MatrixView{d[1], d[0], 1, d[1]};
  }

  // A group as long as the reduction is a channel: the same numbers, in a form that older opsets know and that
  // ONNX Runtime runs (1.30 fails on a block longer than the axis when there are zero points).
  void SingleGroupIsChannel() {
    if (!grouped() || form_.view.reduction > form_.spec.group_size) return;
    form_.spec.granularity = Granularity::kChannel;
    form_.note = "the reduction is a single group";
  }

  void InBlocks() {
    form_.spec.granularity = Granularity::kGroup;
    form_.spec.group_size = form_.block;
  }

  Answer SlowForm() {
    AddWarning(form_, std::string(kEveryRun));
    return form_;
  }

  Answer SlowerThanFloat() {
    if (options_.activations != "none") return form_;  // it runs in integers
    AddWarning(form_, fmt::format("smaller, but {}: slower than float", kEveryRun));
    return form_;
  }

  // `block` 0: as the reduction wants it.
  Answer NBits(int64_t channel_axis, int64_t block = 0) {
    if (form_.spec.scale_dtype != form_.activation) {
      return fmt::format("{} takes scales of its activation's type, {}",
                         node_.op_type == "Gather" ? "GatherBlockQuantized" : "MatMulNBits", NameOf(form_.activation));
    }
    form_.kind = FormKind::kNBits;
    form_.layout = CodeLayout::kNBits;
    form_.view = View2d(channel_axis);
    const int64_t k = form_.view.reduction;
    if (block == 0 && grouped()) block = std::min(form_.spec.group_size, BlockAround(k));
    if (block == 0) block = RepeatBlock(k, form_.spec.format->bits, false);
    form_.spec.group_size = block;
    return form_;
  }

  // Rows that are no whole number of blocks: codes without the filler that MatMulNBits wants.
  Answer RaggedTable() {
    Answer answer = NBits(0);
    if (std::holds_alternative<std::string>(answer)) return answer;
    form_.layout = CodeLayout::kChannelMajor;
    if (form_.spec.format->bits == 8) {
      form_.spec.format = FindFormat("uint8");
      form_.plain_zero_points = false;
    }
    return form_;
  }

  void WarnOfSlowMatrix() {
    const auto warn = [&](const std::string& why) { AddWarning(form_, fmt::format("{}: {}", why, kEveryRun)); };
    if (!form_.requested.empty()) warn(node_.op_type);
    if (grouped() && !IsKernelBlock(form_.spec.group_size)) {
      warn(fmt::format("group size {} is no power of two from 16 to 256", form_.spec.group_size));
    }
    if (node_.op_type == "Gemm" && !IsPlainGemm(node_)) warn("Gemm with transA, alpha or beta");
    if (form_.spec.scale_dtype != form_.activation) warn("scales of another type than the activation need a Cast");
  }

  const Node& node_;
  const WeightReader& reader_;
  const WeightFormat& format_;
  const QuantizeOptions& options_;
  Dims dims_;
  WeightForm form_;
};

// Why no integer product with codes made in each run takes the weight; empty when one does.
std::string WhyNotDynamic(const Graph& graph, const WeightReader& reader, const Weighted& role) {
  const Node& node = graph.node(reader.node);
  const bool product = node.op_type == "MatMul" || node.op_type == "Gemm" || node.op_type == "Conv";
  if (!product || reader.input != role.weight) return fmt::format("{} has no dynamic integer form", node.op_type);
  if (role.reduction_axis != nullptr && reader.dims().size() != 2)
    return "a stack of matrices has no dynamic integer form";
  if (TypeOf(graph, reader, role.activation) != DType::kFloat) return "DynamicQuantizeLinear takes float32 only";
  return "";
}

Answer WeightedForm(const Graph& graph, const WeightReader& reader, const Weighted& role, bool dynamic,
                    FormMaker& maker) {
  const Node& node = graph.node(reader.node);
  const auto rank = static_cast<int64_t>(reader.dims().size());
  const bool matrix = role.reduction_axis != nullptr;
  const bool left = reader.input == role.activation;
  if (!left && reader.input != role.weight)
    return fmt::format("input {} of {}, not its weight", reader.input, node.op_type);
  if (left && !matrix) return fmt::format("the data of {}, not its weight", node.op_type);
  std::string reason = maker.SetActivation(TypeOf(graph, reader, left ? role.weight : role.activation));
  if (reason.empty() && dynamic) reason = WhyNotDynamic(graph, reader, role);
  if (reason.empty() && dynamic && !matrix)
    reason = maker.Request(node.op_type, "slower than float as ConvInteger, it");
  if (reason.empty() && role.on_request) reason = maker.Request(node.op_type, node.op_type + "'s weight");
  if (reason.empty() && left) reason = maker.Request(node.op_type, "a left operand of " + node.op_type);
  if (reason.empty() && matrix && rank < 2) reason = fmt::format("rank {} on {}", rank, node.op_type);
  if (reason.empty() && matrix && rank > 2 && !left) {
    reason = maker.Request(node.op_type, fmt::format("rank {} on {}", rank, node.op_type));
  }
  if (!reason.empty()) return reason;
  if (left) return node.attributes.Int("transA", 0) != 0 ? maker.Columns() : maker.Rows();
  if (matrix) return rank > 2 ? maker.Batched() : maker.Matrix(role.channel_axis(node.attributes, rank));
  return role.channel_axis(node.attributes, rank) == 0 ? maker.Kernel() : maker.TransposedKernel();
}

}  // namespace

void AddWarning(WeightForm& form, const std::string& text) {
  form.warning += (form.warning.empty() ? "" : "; ") + text;
}

Answer FormForReader(const Graph& graph, const WeightReader& reader, const WeightFormat& format,
                     const QuantizeOptions& options) {
  const Node& node = graph.node(reader.node);
  if (TakesAttributes(node))
    return fmt::format("read by {} with attributes that its function is called with", node.op_type);
  FormMaker maker(graph, reader, format, options);
  std::string reason;
  const OpDef* op = OpOf(node);
  const auto* weighted = op == nullptr ? nullptr : std::get_if<Weighted>(&op->role);
  if (options.activations == "dynamic" && weighted == nullptr) {
    return fmt::format("{} has no dynamic integer form", node.op_type);
  }
  if (IsTable(node, reader.input)) {
    reason = maker.SetActivation(reader.dtype);
    return reason.empty() ? maker.Table() : Answer(reason);
  }
  if (weighted != nullptr) return WeightedForm(graph, reader, *weighted, options.activations == "dynamic", maker);

  const auto* recurrent = op == nullptr ? nullptr : std::get_if<Recurrent>(&op->role);
  std::string behind;
  if (recurrent != nullptr && (reader.input == recurrent->weights[0] || reader.input == recurrent->weights[1])) {
    behind = node.op_type;
    reason = maker.SetActivation(TypeOf(graph, reader, recurrent->activation));
  } else if (recurrent != nullptr) {
    return fmt::format("input {} of {}, not its weight", reader.input, node.op_type);
  } else {
    behind = RecurrentBehind(graph, reader.node);
    if (behind.empty()) return fmt::format("read by {}, which has no quantized form", node.op_type);
    reason = maker.SetActivation(reader.dtype);
  }
  if (reason.empty()) reason = maker.Request(behind, behind + "'s weight");
  if (reason.empty() && reader.dims().size() < 2) reason = fmt::format("rank {} on {}", reader.dims().size(), behind);
  return reason.empty() ? maker.Rows() : Answer(reason);
}

}  // namespace quant
