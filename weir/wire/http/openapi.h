// The interface described for machines: an OpenAPI 3.1 document made from the routes.

#pragma once

#include <string>

namespace weir::wire::http {

// The same text every time.
const std::string& openapi();

}  // namespace weir::wire::http
