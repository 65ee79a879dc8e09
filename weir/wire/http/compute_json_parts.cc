#include "weir/wire/http/compute_json_parts.h"

#include <fmt/format.h>

#include "weir/wire/http/text.h"

namespace weir::wire::http {

bool read_owned(Reader& in, const What& what, std::string& value) {
  std::string_view text;
  if (!in.text(what, text)) return false;
  value = text;
  return true;
}

void append_left_out(std::string& out, const system::compute::LeftOut& row) {
  out += R"({"cluster":)";
  append_quoted(out, row.cluster);
  out += R"(,"fault":")";
  out += to_string(row.fault);
  out += R"("})";
}

}  // namespace weir::wire::http
