// Owned request: a request that keeps its own copies of everything.
//
// For requests that are decided again later: those that wait, those that a store is asked
// for, and prepared ones. The view refers to this object, so it is neither copied nor moved.
//
// Thread safety: immutable.

#pragma once

#include <string>
#include <vector>

#include "weir/engine/request.h"

namespace weir::engine {

class OwnedRequest {
 public:
  explicit OwnedRequest(const Request& request);
  OwnedRequest(const OwnedRequest&) = delete;
  OwnedRequest& operator=(const OwnedRequest&) = delete;

  const Request& view() const noexcept { return view_; }

 private:
  std::vector<std::string> texts_;
  std::vector<Attribute> attributes_;
  std::vector<Cost> costs_;
  Request view_;
};

}  // namespace weir::engine
