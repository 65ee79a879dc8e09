#include "weir/store/redis/link/script.h"

#include <fmt/format.h>

#include <boost/uuid/detail/sha1.hpp>

namespace weir::store::redis {

Script::Script(std::string_view name, std::string_view text) : name_(name), text_(text) {
  boost::uuids::detail::sha1 hash;
  hash.process_bytes(text_.data(), text_.size());
  boost::uuids::detail::sha1::digest_type digest;
  hash.get_digest(digest);
  for (const unsigned int word : digest) sha_.append(fmt::format("{:08x}", word));
}

}  // namespace weir::store::redis
