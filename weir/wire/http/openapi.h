// The interface described for machines: an OpenAPI 3.1 document made from the routes.

#pragma once

#include <span>
#include <string>

namespace weir::wire::http {

struct Route;

std::string openapi_of(std::span<const Route* const> routes);

}  // namespace weir::wire::http
