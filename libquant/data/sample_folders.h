// The kinds of folder that hold samples; samples.cc chooses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libquant/data/npz_archive.h"
#include "libquant/data/samples.h"

namespace quant {

// One array per input, sliced along first axes where they are longer than the model's.
StatusOr<std::unique_ptr<SampleSource>> ArraySamples(const std::string& what, std::vector<NpzMember> members,
                                                     const std::vector<InputSpec>& inputs);
// Archives of one sample each.
std::unique_ptr<SampleSource> ArchiveSamples(std::vector<std::string> paths, std::vector<InputSpec> inputs);
// Folders of input_N.pb and output_N.pb, one sample each.
StatusOr<std::unique_ptr<SampleSource>> TestDataSets(std::vector<std::string> folders, std::vector<InputSpec> inputs,
                                                     TensorFileReader reader);

// Regular files of a folder whose names are PREFIX number SUFFIX, by number. DataError when it can't be listed.
StatusOr<std::vector<std::string>> NumberedEntries(const std::string& folder, const std::string& prefix,
                                                   const std::string& suffix);

}  // namespace quant
