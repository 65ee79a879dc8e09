// The interface described for machines: an OpenAPI 3.1 document made from the routes, with the
// schemas of their tables.

#pragma once

#include <span>
#include <string>

namespace weir::wire::http {

class RouteTable;

std::string openapi_of(std::span<const RouteTable* const> tables);

}  // namespace weir::wire::http
