#include "weir/engine/internal/owned_request.h"

namespace weir::engine {

OwnedRequest::OwnedRequest(const Request& request) {
  texts_.reserve(2 * request.attributes.size() + request.costs.size());  // views must not move
  attributes_.reserve(request.attributes.size());
  costs_.reserve(request.costs.size());
  for (const Attribute& attribute : request.attributes) {
    const std::string_view name = texts_.emplace_back(attribute.name);
    const std::string_view value = texts_.emplace_back(attribute.value);
    attributes_.push_back({name, value});
  }
  for (const Cost& cost : request.costs) {
    costs_.push_back({texts_.emplace_back(cost.unit), cost.amount});
  }
  view_ = {attributes_, costs_};
}

}  // namespace weir::engine
