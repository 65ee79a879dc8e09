#include "weir/store/redis/link/script.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <span>

#include "weir/base/assert.h"

namespace weir::store::redis {

Script::Script(std::string_view name, std::string_view text) : name_(name), text_(text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  const int made =
      EVP_Digest(text_.data(), text_.size(), digest.data(), &size, EVP_sha1(), nullptr);
  WEIR_ASSERT(made == 1);
  for (const unsigned char byte : std::span(digest).first(size)) {
    sha_.append(fmt::format("{:02x}", byte));
  }
}

}  // namespace weir::store::redis
