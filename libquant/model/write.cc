#include "libquant/model/write.h"

#include <exception>
#include <filesystem>
#include <limits>

#include "libquant/base/checked.h"
#include "libquant/base/file.h"
#include "libquant/model/payload_writer.h"
#include "libquant/model/proto.h"
#include "libquant/model/read.h"
#include "libquant/model/wire.h"

namespace quant {
namespace {

constexpr int64_t kAutoExternalBytes = int64_t{1} << 30;
constexpr int64_t kProtobufLimit = std::numeric_limits<int32_t>::max();
// Large payloads of a data file start on pages, so that a runtime can map them; small ones on cache lines.
constexpr int64_t kPage = 4096;
constexpr int64_t kLine = 64;

struct Plan {
  std::vector<Tensor> payloads;
  std::vector<size_t> group_of;  // of each payload: see GroupPayloads
  std::vector<PayloadPlace> places;
  FileLayout layout;
  int64_t data_bytes = 0;
};

Status CheckNotSource(const Model& model, const std::string& path) {
  const auto id = IdOfFile(path);
  if (!id.ok()) return OkStatus();  // nothing there yet
  for (const auto& source : model.sources) {
    if (source->id() == *id) {
      return UsageError("{} is {}, which the model is read from; name another output", path,
                        source->path() == path ? "the file" : "the same file as " + source->path());
    }
  }
  return OkStatus();
}

// Payloads of kInlineBytes and more go to the data file, those that share one payload to one range.
Status PlaceExternally(Plan* plan) {
  std::vector<int64_t> offset_of_group(plan->payloads.size(), -1);
  for (size_t i = 0; i < plan->payloads.size(); ++i) {
    PayloadPlace& place = plan->places[i];
    place.external = place.size >= kInlineBytes;
    if (!place.external) continue;
    int64_t& offset = offset_of_group[plan->group_of[i]];
    if (offset < 0) {
      const int64_t align = place.size >= kPage ? kPage : kLine;
      const auto end = CheckedAdd(plan->data_bytes, place.size + align);
      if (!end) return Unsupported("the weights would pass {} bytes", std::numeric_limits<int64_t>::max());
      offset = CeilDiv(plan->data_bytes, align) * align;
      plan->data_bytes = offset + place.size;
    }
    place.offset = offset;
  }
  return OkStatus();
}

StatusOr<Plan> MakePlan(const Model& model, const std::string& data_name, ExternalData mode) {
  Plan plan;
  std::string skeleton;
  {
    ASSIGN_OR_RETURN(const onnx::ModelProto proto, ToSkeleton(model, &plan.payloads));
    skeleton = SerializeMessage(proto);
  }
  plan.group_of = GroupPayloads(plan.payloads);
  int64_t total = static_cast<int64_t>(skeleton.size());
  for (const Tensor& t : plan.payloads) {
    plan.places.push_back({t.byte_size(), false, 0});
    const auto sum = CheckedAdd(total, t.byte_size());
    if (!sum) return Unsupported("the weights would pass {} bytes", std::numeric_limits<int64_t>::max());
    total = *sum;
  }
  if (mode == ExternalData::kNever && total > kProtobufLimit) {
    return Unsupported("one file of {} bytes would pass the 2 GiB that an ONNX file can hold; allow external data",
                       total);
  }
  if (mode == ExternalData::kAlways || (mode == ExternalData::kAuto && total > kAutoExternalBytes)) {
    RETURN_IF_ERROR(PlaceExternally(&plan));
  }
  ASSIGN_OR_RETURN(plan.layout, LayOutModel(skeleton, plan.places, data_name));
  if (plan.layout.size > kProtobufLimit) {
    return Unsupported("one file of {} bytes would pass the 2 GiB that an ONNX file can hold{}", plan.layout.size,
                       mode == ExternalData::kNever ? "; allow external data" : "");
  }
  return plan;
}

// Everything between the pending files' creation and their commit.
Status Fill(const Plan& plan, PendingFile* model_file, PendingFile* data_file, const WriteOptions& options) {
  if (data_file != nullptr) RETURN_IF_ERROR(data_file->Reserve(plan.data_bytes));
  RETURN_IF_ERROR(model_file->Reserve(plan.layout.size));
  std::vector<PayloadGroup> groups;
  const auto group_for = [&](size_t payload) -> PayloadGroup& {
    const size_t g = plan.group_of[payload];
    if (g >= groups.size()) groups.resize(g + 1);
    groups[g].tensor = plan.payloads[payload];
    return groups[g];
  };
  for (size_t i = 0; i < plan.payloads.size(); ++i) {
    const PayloadPlace& place = plan.places[i];
    PayloadGroup& group = group_for(i);
    // Sharers of an external range name the same bytes: they are written once.
    if (place.external && group.destinations.empty()) group.destinations.push_back({data_file, place.offset});
  }
  int64_t at = 0;
  for (const LayoutPiece& piece : plan.layout.pieces) {
    if (piece.payload >= 0) {
      group_for(static_cast<size_t>(piece.payload)).destinations.push_back({model_file, at});
    } else {
      RETURN_IF_ERROR(model_file->WriteAt(at, std::as_bytes(std::span(piece.bytes.data(), piece.bytes.size()))));
    }
    at += piece.size;
  }
  return WritePayloads(groups, options.progress);
}

Status CompareGraphs(const Graph& written, const Graph& read) {
  const auto nodes = written.AllNodes().size(), nodes_read = read.AllNodes().size();
  if (nodes != nodes_read) return BugError("{} nodes were written and {} read back", nodes, nodes_read);
  const auto& names = written.main().initializers;
  const auto& names_read = read.main().initializers;
  if (names.size() != names_read.size()) {
    return BugError("{} initializers were written and {} read back", names.size(), names_read.size());
  }
  // A sparse initializer comes back after the dense ones: compare dense ones in order.
  std::vector<const Value*> dense[2];
  for (ValueId v : names) {
    if (written.value(v).constant) dense[0].push_back(&written.value(v));
  }
  for (ValueId v : names_read) {
    if (read.value(v).constant) dense[1].push_back(&read.value(v));
  }
  if (dense[0].size() != dense[1].size()) return BugError("the initializers read back differ in kind");
  for (size_t i = 0; i < dense[0].size(); ++i) {
    const Value &a = *dense[0][i], &b = *dense[1][i];
    if (a.name != b.name || a.constant->dtype() != b.constant->dtype() || a.constant->dims() != b.constant->dims()) {
      return BugError("initializer {} {} reads back as {} {}", a.name, Describe(*a.constant), b.name,
                      Describe(*b.constant));
    }
  }
  return OkStatus();
}

Status CheckWritten(const Model& model, const std::string& path) {
  auto read = ReadModel(path);
  if (!read.ok()) return BugError("what was written does not read back: {}", Message(read.status()));
  RETURN_IF_ERROR(CompareGraphs(model.graph, read->graph));
  if (model.functions.size() != read->functions.size()) return BugError("functions are missing in {}", path);
  for (size_t i = 0; i < model.functions.size(); ++i) {
    RETURN_IF_ERROR(CompareGraphs(model.functions[i].body, read->functions[i].body));
  }
  return OkStatus();
}

StatusOr<WriteResult> Write(const Model& model, const std::string& path, const WriteOptions& options) {
  RETURN_IF_ERROR(Verify(model.graph));
  RETURN_IF_ERROR(CheckNotSource(model, path));
  const std::string data_path = path + ".data";
  const std::string data_name = std::filesystem::path(data_path).filename().string();
  auto plan = MakePlan(model, data_name, options.external_data);
  if (!plan.ok()) return WithContext(plan.status(), path);
  std::unique_ptr<PendingFile> data_file;
  if (plan->data_bytes > 0) {
    RETURN_IF_ERROR(CheckNotSource(model, data_path));
    ASSIGN_OR_RETURN(data_file, PendingFile::Create(data_path));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> model_file, PendingFile::Create(path));
  RETURN_IF_ERROR(Fill(*plan, model_file.get(), data_file.get(), options));
  std::vector<PendingFile*> in_order;
  if (data_file != nullptr) in_order.push_back(data_file.get());
  in_order.push_back(model_file.get());
  RETURN_IF_ERROR(CommitFiles(in_order));
  RETURN_IF_ERROR(CheckWritten(model, path));
  return WriteResult{plan->layout.size, plan->data_bytes};
}

}  // namespace

StatusOr<WriteResult> WriteModel(const Model& model, const std::string& path, const WriteOptions& options) {
  try {
    return Write(model, path, options);
  } catch (const std::exception& e) {
    return OutputError("cannot write {}: {}", path, e.what());
  }
}

StatusOr<WriteResult> SizesToWrite(const Model& model, ExternalData external_data) {
  try {
    ASSIGN_OR_RETURN(const Plan plan, MakePlan(model, "model.onnx.data", external_data));
    return WriteResult{plan.layout.size, plan.data_bytes};
  } catch (const std::exception& e) {
    return OutputError("cannot lay out the model: {}", e.what());
  }
}

}  // namespace quant
