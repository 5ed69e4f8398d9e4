#include "libquant/base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "libquant/base/file.h"

namespace quant {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) { EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr); }
Sha256::~Sha256() = default;

void Sha256::Add(std::string_view bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

StatusOr<int64_t> Sha256::AddFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, File::Open(path));
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPiece, file->size())));
  for (int64_t at = 0; at < file->size(); at += kPiece) {
    const auto part = std::span(piece).first(static_cast<size_t>(std::min(kPiece, file->size() - at)));
    RETURN_IF_ERROR(file->Read(at, part));
    EVP_DigestUpdate(state_->context, part.data(), part.size());
  }
  return file->size();
}

std::string Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &length);
  std::string out;
  for (unsigned i = 0; i < length; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace quant
