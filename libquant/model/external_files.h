// External data files of a model: which file a location means, opened once each, never outside the model's folder.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libquant/base/file.h"
#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"
#include "libquant/model/onnx_version.h"

namespace quant {

class ExternalFiles {
 public:
  explicit ExternalFiles(const std::string& model_path);

  // The range that the tensor's external_data names. DataError when its keys are no numbers, its path is absolute,
  // climbs out of the model's folder (`..` or a symbolic link), or is missing, or the range ends past the file's end.
  StatusOr<FileRange> Resolve(const onnx::TensorProto& tensor);

  // Every file opened so far, in order, each once.
  const std::vector<std::shared_ptr<const File>>& files() const { return files_; }

 private:
  StatusOr<std::shared_ptr<const File>> Open(const std::string& location);

  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const File>> by_location_;
  std::vector<std::shared_ptr<const File>> files_;
};

}  // namespace quant
