#include <algorithm>
#include <limits>

#include "libquant/model/proto.h"
#include "libquant/model/wire.h"
#include "libquant/model/wire_fields.h"

namespace quant {
namespace {

constexpr int64_t kBufferBytes = int64_t{256} << 10;
constexpr int64_t kMaxSkeleton = std::numeric_limits<int32_t>::max();
constexpr int kMaxGroupDepth = 64;

// A position in a file, with a window of it in memory.
class FileCursor {
 public:
  explicit FileCursor(const File& file) : file_(file), window_(static_cast<size_t>(kBufferBytes)) {}

  int64_t position() const { return position_; }
  void Seek(int64_t position) { position_ = position; }

  StatusOr<uint64_t> Varint(int64_t end) {
    uint64_t value = 0;
    const int64_t start = position_;
    for (int shift = 0; shift < 70; shift += 7) {
      if (position_ >= end) return Damaged(start, "a number runs past the end of what holds it");
      ASSIGN_OR_RETURN(const uint8_t byte, Byte());
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return Damaged(start, "a number of more than 10 bytes");
  }

  Status Copy(int64_t length, std::string* out) {
    RETURN_IF_ERROR(CheckRoom(length, *out));
    const size_t old = out->size();
    if (length <= kBufferBytes) {
      RETURN_IF_ERROR(Fill(length));
      out->append(reinterpret_cast<const char*>(window_.data() + (position_ - window_start_)),
                  static_cast<size_t>(length));
    } else {
      out->resize(old + static_cast<size_t>(length));
      RETURN_IF_ERROR(
          file_.Read(position_, std::as_writable_bytes(std::span(out->data() + old, static_cast<size_t>(length)))));
    }
    position_ += length;
    return OkStatus();
  }

  static Status CheckRoom(int64_t length, const std::string& out) {
    if (length <= kMaxSkeleton - static_cast<int64_t>(out.size())) return OkStatus();
    return Unsupported(
        "more than 2 GiB of the file are not raw tensor data, which protobuf cannot parse; export the weights as "
        "raw_data or as external data");
  }

  Status Damaged(int64_t at, std::string_view what) const {
    return DataError("damaged at byte {} of {}: {}; it is truncated or no ONNX model, fetch or export it again", at,
                     file_.size(), what);
  }

 private:
  // Makes [position, position + length) part of the window; length is at most the window's.
  Status Fill(int64_t length) {
    if (position_ >= window_start_ && position_ + length <= window_start_ + filled_) return OkStatus();
    const int64_t take = std::min(kBufferBytes, file_.size() - position_);
    RETURN_IF_ERROR(file_.Read(position_, std::span(window_.data(), static_cast<size_t>(std::max(take, length)))));
    window_start_ = position_;
    filled_ = take;
    return OkStatus();
  }
  StatusOr<uint8_t> Byte() {
    RETURN_IF_ERROR(Fill(1));
    return static_cast<uint8_t>(window_[static_cast<size_t>(position_++ - window_start_)]);
  }

  const File& file_;
  std::vector<std::byte> window_;
  int64_t position_ = 0;
  int64_t window_start_ = 0;
  int64_t filled_ = 0;
};

class SkeletonReader {
 public:
  explicit SkeletonReader(const std::shared_ptr<const File>& file) : file_(file), cursor_(*file) {}

  StatusOr<FileSkeleton> Read(WireMessage message) {
    RETURN_IF_ERROR(Walk(message, file_->size(), 0, &out_.bytes));
    return std::move(out_);
  }

 private:
  struct Tag {
    uint32_t field;
    uint32_t type;
  };

  StatusOr<Tag> ReadTag(int64_t end) {
    const int64_t start = cursor_.position();
    ASSIGN_OR_RETURN(const uint64_t tag, cursor_.Varint(end));
    if (tag > std::numeric_limits<uint32_t>::max() || (tag >> 3) == 0 || (tag & 7) > kFixed32) {
      return cursor_.Damaged(start, "no field starts like this");
    }
    return Tag{static_cast<uint32_t>(tag >> 3), static_cast<uint32_t>(tag & 7)};
  }

  StatusOr<int64_t> ReadLength(int64_t end) {
    const int64_t start = cursor_.position();
    ASSIGN_OR_RETURN(const uint64_t length, cursor_.Varint(end));
    const auto left = static_cast<uint64_t>(end - cursor_.position());
    if (length > left) {
      return cursor_.Damaged(start, fmt::format("a field claims {} bytes where {} are left", length, left));
    }
    return static_cast<int64_t>(length);
  }

  // Copies a field that no walk looks into, whatever it is: unknown fields survive.
  Status CopyField(Tag tag, int64_t end, int group_depth, std::string* out) {
    AppendTag(tag.field, static_cast<WireType>(tag.type), out);
    switch (tag.type) {
      case kVarint: {
        ASSIGN_OR_RETURN(const uint64_t value, cursor_.Varint(end));
        AppendVarint(value, out);
        return OkStatus();
      }
      case kLengthPrefixed: {
        ASSIGN_OR_RETURN(const int64_t length, ReadLength(end));
        AppendVarint(static_cast<uint64_t>(length), out);
        return cursor_.Copy(length, out);
      }
      case kFixed32:
      case kFixed64: {
        const int64_t length = tag.type == kFixed32 ? 4 : 8;
        if (length > end - cursor_.position()) {
          return cursor_.Damaged(cursor_.position(), "a number runs past the end of what holds it");
        }
        return cursor_.Copy(length, out);
      }
      case kStartGroup:
        return CopyGroup(tag.field, end, group_depth + 1, out);
      default:
        return cursor_.Damaged(cursor_.position(), "a group ends that never began");
    }
  }

  Status CopyGroup(uint32_t field, int64_t end, int depth, std::string* out) {
    if (depth > kMaxGroupDepth) return cursor_.Damaged(cursor_.position(), "groups nested too deep");
    while (cursor_.position() < end) {
      ASSIGN_OR_RETURN(const Tag tag, ReadTag(end));
      if (tag.type == kEndGroup && tag.field == field) {
        AppendTag(field, kEndGroup, out);
        return OkStatus();
      }
      RETURN_IF_ERROR(CopyField(tag, end, depth, out));
    }
    return cursor_.Damaged(cursor_.position(), "a group has no end");
  }

  Status Walk(WireMessage message, int64_t end, int body_depth, std::string* out) {
    if (body_depth > kMaxBodyDepth) {
      return DataError("graphs are nested more than {} deep, which no real model is", kMaxBodyDepth);
    }
    int64_t payload = -1;
    while (cursor_.position() < end) {
      ASSIGN_OR_RETURN(const Tag tag, ReadTag(end));
      const auto child = ChildMessage(message, tag.field);
      const bool raw = message == WireMessage::kTensor && tag.field == kTensorRawData;
      if (tag.type != kLengthPrefixed || !(child || raw)) {
        RETURN_IF_ERROR(CopyField(tag, end, 0, out));
        continue;
      }
      ASSIGN_OR_RETURN(const int64_t length, ReadLength(end));
      if (length >= kInlineBytes && raw) {
        payload = static_cast<int64_t>(out_.payloads.size());
        out_.payloads.push_back({file_, cursor_.position(), length});
        cursor_.Seek(cursor_.position() + length);
      } else {
        RETURN_IF_ERROR(CopyMessage(tag.field, child, length, body_depth, out));
      }
    }
    if (payload >= 0) {
      // Concatenated serializations merge: these fields join the tensor's others.
      onnx::TensorProto reference;
      SetPayloadIndex(payload, &reference);
      out->append(SerializeMessage(reference));
    }
    return OkStatus();
  }

  Status CopyMessage(uint32_t field, std::optional<WireMessage> child, int64_t length, int body_depth,
                     std::string* out) {
    AppendTag(field, kLengthPrefixed, out);
    if (!child || length < kInlineBytes) {  // too short to hold large raw data
      AppendVarint(static_cast<uint64_t>(length), out);
      return cursor_.Copy(length, out);
    }
    std::string inner;
    const int inner_depth = body_depth + (*child == WireMessage::kGraph ? 1 : 0);
    RETURN_IF_ERROR(Walk(*child, cursor_.position() + length, inner_depth, &inner));
    RETURN_IF_ERROR(FileCursor::CheckRoom(static_cast<int64_t>(inner.size()), *out));
    AppendVarint(inner.size(), out);
    out->append(inner);
    return OkStatus();
  }

  std::shared_ptr<const File> file_;
  FileCursor cursor_;
  FileSkeleton out_;
};

}  // namespace

StatusOr<FileSkeleton> ReadSkeleton(const std::shared_ptr<const File>& file, WireMessage message) {
  return SkeletonReader(file).Read(message);
}

}  // namespace quant
