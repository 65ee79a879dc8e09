// The interface described for machines: an OpenAPI 3.1 document made from the routes, with the
// schemas of their tables.

#pragma once

#include <span>
#include <string>

#include "weir/wire/http/headers.h"

namespace weir::wire::http {

class RouteTable;

// `style`: of the headers that a decision has.
std::string openapi_of(std::span<const RouteTable* const> tables, HeaderStyle style);

}  // namespace weir::wire::http
