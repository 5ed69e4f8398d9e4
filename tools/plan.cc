#include <algorithm>
#include <set>

#include "libquant/model/check.h"
#include "libquant/model/expand_operators.h"
#include "libquant/model/read.h"
#include "passes/quant/precision_sizes.h"
#include "passes/shape/bind_dims.h"
#include "tools/argument_groups.h"
#include "tools/dim_args.h"
#include "tools/plan_report.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

ExpectedLoss LossOf(PrecisionKind kind, bool quantized) {
  switch (kind) {
    case PrecisionKind::kInt8:
      return ExpectedLoss::kInt8;
    case PrecisionKind::kInt4:
      return ExpectedLoss::kInt4;
    case PrecisionKind::kInt4Groups:
      return ExpectedLoss::kInt4Groups;
    case PrecisionKind::kHalf:
      return ExpectedLoss::kNone;
    case PrecisionKind::kAsIs:
      break;
  }
  return quantized ? ExpectedLoss::kUnknown : ExpectedLoss::kNone;
}

class PlanTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {"plan",
            "will it fit the device, and at what precision",
            "Adds up what a model needs in memory at each precision: weights as quantize and convert would store them, "
            "the KV cache for a sequence, and the peak of activations, with a margin on top. Says for each device what "
            "fits and what to choose: the most precise that does. Reads no weight.\n"
            "The KV cache is read from the graph's past and present tensors, or told by --layers, --hidden and "
            "--sequence. Without a MODEL, --parameters and these flags are all there is, and activations are not "
            "counted.\n"
            "Losses are published rules of thumb and not measured. --device takes a file for a device of your own: "
            "name, about, memory (what it has for models, as 2 GB), memory-at-best.",
            {"nibble plan model.onnx", "nibble plan decoder.onnx --sequence 2048 --cache-type fp16",
             "nibble plan detector.onnx --dim height=640 --dim width=640 --device mid-range-phone --strict",
             "nibble plan model.onnx --device my-board.yaml --margin 30", "# a model that is not at hand",
             "nibble plan --parameters 7e9 --layers 32 --hidden 4096 --sequence 2048",
             "nibble plan --parameters 8e9 --layers 32 --hidden 4096 --heads 32 --kv-heads 8 --sequence 8192"}};
  }

  void Declare(Args& args) override {
    args.OptionalPositional("MODEL", &path_, "the ONNX file");
    args.Group("Sizes");
    args.Value("--parameters", "N", &parameters_, "number of weights, as 7e9, when there is no MODEL");
    args.Value("--sequence", "N", &sequence_, "tokens, past and new: length of the KV cache, or of the input");
    args.Value("--batch", "N", &batch_, "sequences or samples at once; default 1");
    args.Value("--dim", "NAME=N", &dims_, "the number of one of the model's named dimensions; may be repeated");
    args.Value("--input", "NAME=SHAPE", &inputs_, "the shape of an input, as 1x3x224x224; may be repeated");
    args.Group("KV cache by hand");
    args.Value("--layers", "N", &layers_, "layers that have a cache; goes before what the graph says");
    args.Value("--hidden", "N", &hidden_, "hidden size: heads times the size of one");
    args.Value("--heads", "N", &heads_, "attention heads; needed with --kv-heads");
    args.Value("--kv-heads", "N", &kv_heads_, "heads of keys and values, of grouped-query attention; default --heads");
    args.Choice("--cache-type", {"fp32", "fp16", "int8"}, &cache_type_,
                "type of the cache's elements; default the graph's, or fp16");
    args.Group("Precision and device");
    args.Choice("--scale-type", {"fp32", "fp16"}, &scale_type_,
                "type of the scales of quantized weights; default the activation's, or fp16 without a MODEL");
    args.Value(
        "--device", "NAME|FILE", &device_names_,
        fmt::format("one of {}, or a YAML file; may be repeated; default all of them", fmt::join(DeviceNames(), ", ")));
    args.Value("--margin", "PERCENT", &margin_, "what to add to the total; default 20");
    args.Flag("--strict", &strict_, "exit code 1 unless something surely fits each device that --device names");
    common_.DeclareRendered(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(CheckArgs(args));
    ASSIGN_OR_RETURN(PlanReport report, Devices());
    RETURN_IF_ERROR(path_.empty() ? FromFlags(report) : FromModel(report));
    for (Precision& p : report.precisions) RETURN_IF_ERROR(AddUp(p, margin_ / 100));
    for (const Device& d : report.devices) report.choices.push_back(Choose(report.precisions, d));
    Report rendered;
    rendered.tool = "plan";
    rendered.config = args.Resolved();
    report.AddTo(rendered);
    FileList files(rendered, common_.report().has_value());
    if (!path_.empty()) RETURN_IF_ERROR(files.Add("model", path_));
    RETURN_IF_ERROR(common_.Emit(rendered, Json::Object()));
    return strict_ ? CheckFits(report) : OkStatus();
  }

 private:
  bool CacheByHand() const { return layers_ || hidden_ || heads_ || kv_heads_; }

  Status CheckArgs(const Args& args) const {
    const std::pair<const char*, const std::optional<int64_t>*> numbers[] = {
        {"--sequence", &sequence_}, {"--batch", &batch_}, {"--layers", &layers_},
        {"--hidden", &hidden_},     {"--heads", &heads_}, {"--kv-heads", &kv_heads_}};
    for (const auto& [name, number] : numbers) {
      if (*number && **number < 1) return UsageError("{} takes a number of 1 or more, not {}", name, **number);
    }
    if (margin_ < 0 || margin_ > 1000) return UsageError("--margin takes 0 to 1000 percent");
    if (strict_ && device_names_.empty()) return UsageError("--strict needs a --device");
    if (path_.empty() && !parameters_)
      return UsageError("MODEL is missing: an ONNX file, or --parameters N without one");
    if (!path_.empty() && parameters_)
      return UsageError("--parameters has no effect with a MODEL, which says it itself");
    if (path_.empty() && !dims_.empty()) return UsageError("--dim has no effect without a MODEL");
    if (path_.empty() && !inputs_.empty()) return UsageError("--input has no effect without a MODEL");
    if (CacheByHand() && (!layers_ || !hidden_ || !sequence_)) {
      return UsageError("{} is missing: a KV cache by hand needs --layers, --hidden and --sequence",
                        !layers_   ? "--layers"
                        : !hidden_ ? "--hidden"
                                   : "--sequence");
    }
    if (kv_heads_ && !heads_) return UsageError("--kv-heads needs --heads");
    if (path_.empty() && !CacheByHand()) {
      for (const char* name : {"--sequence", "--batch", "--cache-type"}) {
        if (args.Given(name)) return UsageError("{} has no effect without --layers and --hidden, or a MODEL", name);
      }
    }
    return OkStatus();
  }

  StatusOr<PlanReport> Devices() const {
    PlanReport report;
    report.margin_percent = margin_;
    std::set<std::string> seen;
    for (const std::string& name : device_names_.empty() ? DeviceNames() : device_names_) {
      auto device = FindDevice(name);
      if (!device.ok()) return device.status();
      if (!seen.insert(device->name).second) return UsageError("device '{}' is given twice", device->name);
      report.devices.push_back(*std::move(device));
    }
    if (device_names_.empty()) {
      std::stable_sort(report.devices.begin(), report.devices.end(),
                       [](const Device& a, const Device& b) { return a.memory > b.memory; });
    }
    return report;
  }

  int64_t CacheBits() const { return cache_type_ == "fp32" ? 32 : cache_type_ == "int8" ? 8 : 16; }

  StatusOr<int64_t> CacheFromFlags(PlanReport& report) const {
    CacheSpec spec;
    spec.layers = *layers_;
    spec.hidden = *hidden_;
    spec.heads = heads_.value_or(1);
    spec.kv_heads = kv_heads_.value_or(spec.heads);
    spec.batch = batch_.value_or(1);
    spec.bits = CacheBits();
    spec.sequence = 1;
    ASSIGN_OR_RETURN(report.cache.bytes_per_token, CacheBytes(spec));
    spec.sequence = *sequence_;
    ASSIGN_OR_RETURN(report.cache.bytes, CacheBytes(spec));
    report.cache.length = spec.sequence;
    report.cache_source = PlanReport::CacheSource::kFlags;
    report.cache_type = cache_type_.empty() ? "fp16" : cache_type_;
    return report.cache.bytes;
  }

  Status FromFlags(PlanReport& report) const {
    ASSIGN_OR_RETURN(report.parameters, ParseCount("--parameters", *parameters_));
    std::optional<int64_t> cache;
    if (CacheByHand()) {
      ASSIGN_OR_RETURN(cache, CacheFromFlags(report));
    }
    struct Row {
      const char* name;
      ExpectedLoss loss;
      int64_t bits, group;
    };
    const Row rows[] = {{"fp32", ExpectedLoss::kNone, 32, 0},
                        {"fp16", ExpectedLoss::kNone, 16, 0},
                        {"int8", ExpectedLoss::kInt8, 8, 0},
                        {"int4, groups of 32", ExpectedLoss::kInt4Groups, 4, 32},
                        {"int4, groups of 64", ExpectedLoss::kInt4Groups, 4, 64},
                        {"int4, groups of 128", ExpectedLoss::kInt4Groups, 4, 128},
                        {"int4, per channel", ExpectedLoss::kInt4, 4, 0}};
    for (const Row& row : rows) {
      Precision p;
      p.name = row.name;
      p.loss = row.loss;
      p.cache_bytes = cache;
      ASSIGN_OR_RETURN(p.weight_bytes,
                       WeightBytes(report.parameters, row.bits, row.group, scale_type_ == "fp32" ? 32 : 16));
      report.precisions.push_back(std::move(p));
    }
    report.notes.emplace_back("scales of channels are not counted: they are few");
    return OkStatus();
  }

  // The user's numbers, and those that follow from --sequence and --batch.
  StatusOr<DimRequest> Request(const Model& expanded, PlanReport& report) const {
    DimRequest out;
    SequenceDims dims{sequence_, batch_, {}};
    for (const std::string& text : dims_) {
      ASSIGN_OR_RETURN(out.dims.emplace_back(), ParseDim(text));
      dims.given[out.dims.back().name] = out.dims.back().number;
    }
    for (const std::string& text : inputs_) {
      ASSIGN_OR_RETURN(out.inputs.emplace_back(), ParseInput(text));
    }
    const Graph& graph = expanded.graph;
    for (const DimRequest::Input& input : out.inputs) {
      for (ValueId v : graph.main().inputs) {
        const Value& value = graph.value(v);
        if (value.name != input.name || !value.shape || value.shape->size() != input.dims.size()) continue;
        for (size_t i = 0; i < input.dims.size(); ++i) {
          if (input.dims[i] && !(*value.shape)[i].known()) dims.given[(*value.shape)[i].symbol] = *input.dims[i];
        }
      }
    }
    report.dims = dims.given;
    report.dims.erase("");
    const std::vector<CacheTensor> caches = FindCaches(graph);
    // A cache by hand says how long the sequence is for; the graph need not know.
    if (caches.empty() && CacheByHand()) dims.sequence.reset();
    ASSIGN_OR_RETURN(const auto bound, BindSequence(graph, caches, dims));
    for (const auto& [name, number] : bound) out.dims.push_back({name, number});
    report.dims.insert(bound.begin(), bound.end());
    return out;
  }

  Status FromModel(PlanReport& report) {
    ASSIGN_OR_RETURN(Model model, ReadModel(path_));
    if (common_.report()) RETURN_IF_ERROR(CheckOutputs({*common_.report()}, {&model}, std::nullopt));
    RETURN_IF_ERROR(WithContext(CheckModel(model), path_));
    Model inferred = model;
    RETURN_IF_ERROR(WithContext(InferShapes(inferred), path_));
    Model expanded = inferred;
    RETURN_IF_ERROR(WithContext(ExpandOperators(expanded), path_));
    ASSIGN_OR_RETURN(const DimRequest request, Request(expanded, report));
    if (!request.dims.empty() || !request.inputs.empty()) {
      const auto bound = BindDims(model, request);
      if (!bound.ok()) return WithContext(bound.status(), path_);
      expanded = std::move(model);
      RETURN_IF_ERROR(WithContext(ExpandOperators(expanded), path_));
    }
    report.model = path_;
    const DType scales = scale_type_.empty()     ? DType::kUndefined
                         : scale_type_ == "fp16" ? DType::kFloat16
                                                 : DType::kFloat;
    ASSIGN_OR_RETURN(const PrecisionSizes sizes, SizesAtPrecisions(inferred, scales));
    report.parameters = sizes.parameters;
    if (!sizes.note.empty()) report.notes.push_back(sizes.note);
    return AddModel(expanded, sizes, report);
  }

  Status AddModel(const Model& model, const PrecisionSizes& sizes, PlanReport& report) const {
    const std::vector<CacheTensor> caches = FindCaches(model.graph);
    if (!cache_type_.empty() && caches.empty() && !CacheByHand()) {
      return UsageError(
          "--cache-type has no effect: {} has no KV cache among its inputs and outputs; --layers, --hidden "
          "and --sequence can give one",
          path_);
    }
    ActivationOptions activations;
    for (const CacheTensor& c : caches) activations.elsewhere.insert({c.past, c.present});
    report.activations = PeakActivations(model, activations);
    activations.half = true;
    const ActivationMemory half = PeakActivations(model, activations);
    if (report.activations->at != kNoNode) report.peak_node = model.graph.NodeLabel(report.activations->at);
    for (const PrecisionSize& size : sizes.sizes) {
      Precision p;
      p.name = size.name;
      p.loss = LossOf(size.kind, size.name == "as it is");
      p.weight_bytes = size.bytes;
      p.activation_bytes = size.kind == PrecisionKind::kHalf ? half.peak_bytes : report.activations->peak_bytes;
      ASSIGN_OR_RETURN(p.cache_bytes, CacheOf(caches, size.kind == PrecisionKind::kHalf, report));
      report.precisions.push_back(std::move(p));
    }
    AddNotes(caches, report);
    return OkStatus();
  }

  StatusOr<std::optional<int64_t>> CacheOf(const std::vector<CacheTensor>& caches, bool half,
                                           PlanReport& report) const {
    if (CacheByHand()) {
      ASSIGN_OR_RETURN(const int64_t bytes, CacheFromFlags(report));
      return std::optional(bytes);
    }
    if (caches.empty()) return std::optional<int64_t>();
    CacheOptions options;
    options.length = sequence_;
    options.half = half;
    if (!cache_type_.empty()) options.bits = CacheBits();
    ASSIGN_OR_RETURN(CacheSize size, MeasureCaches(caches, options));
    const int64_t bytes = size.bytes;
    if (report.cache_source == PlanReport::CacheSource::kGraph) return std::optional(bytes);
    report.cache_source = PlanReport::CacheSource::kGraph;
    report.cache_type = cache_type_.empty() ? std::string(NameOf(caches[0].dtype)) : cache_type_;
    report.cache_tensors = caches.size();
    report.cache = std::move(size);
    return std::optional(bytes);
  }

  void AddNotes(const std::vector<CacheTensor>& caches, PlanReport& report) const {
    const bool read = report.cache_source == PlanReport::CacheSource::kGraph;
    const bool copied = std::any_of(caches.begin(), caches.end(),
                                    [](const CacheTensor& c) { return c.past != kNoValue && c.present != kNoValue; });
    report.cache_copied = read && copied;
    if (report.cache_copied) {
      report.notes.emplace_back(
          "the cache is counted once: a runtime that gives past and present memory of their own needs it twice");
    }
    if (read && !sequence_ && !report.cache.opened.empty()) {
      report.notes.push_back(
          fmt::format("the cache is that of one token where its length is open ({}): --sequence N "
                      "says how many",
                      fmt::join(report.cache.opened, ", ")));
    }
    if (!report.activations->open_dims.empty()) {
      report.notes.push_back(
          fmt::format("dimensions without a number count as 1 ({}): --dim, --batch, --sequence or "
                      "--input gives them one",
                      fmt::join(report.activations->open_dims, ", ")));
    }
    if (CacheByHand() && !caches.empty()) {
      report.notes.push_back(
          fmt::format("the cache is that of the flags; {} cache tensors of the graph are not counted", caches.size()));
    }
  }

  Status CheckFits(const PlanReport& report) const {
    std::vector<std::string> misfits;
    for (size_t i = 0; i < report.devices.size(); ++i) {
      if (report.choices[i].fit != Fit::kFits) misfits.push_back(report.devices[i].name);
    }
    if (misfits.empty()) return OkStatus();
    return GateError("nothing surely fits {}", fmt::join(misfits, ", "));
  }

  std::string path_;
  std::optional<std::string> parameters_;
  std::optional<int64_t> sequence_, batch_, layers_, hidden_, heads_, kv_heads_;
  std::vector<std::string> dims_, inputs_, device_names_;
  std::string cache_type_, scale_type_;
  double margin_ = 20;
  bool strict_ = false;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakePlan() { return std::make_unique<PlanTool>(); }

}  // namespace quant
