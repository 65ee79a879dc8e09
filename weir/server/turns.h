// Turns: what the log says of parts that begin to fail and work again.
//
// A part says all the time how it is; the log has one line when it begins to fail, and one when
// it works again.
//
// Thread safety: look() by one thread at a time, say() by any.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "weir/server/log.h"

namespace weir::server {

class Turns {
 public:
  explicit Turns(const Log& log) : log_(log) {}

  // How a part is now; `trouble` is empty if it works.
  void look(std::string_view part, std::string trouble) {
    std::string& known = known_[std::string(part)];
    if (trouble.empty() != known.empty()) say(part, trouble);
    known = std::move(trouble);
  }

  // Of a part that tells its turns by itself.
  void say(std::string_view part, std::string_view trouble) const {
    if (!log_) return;
    if (trouble.empty()) {
      log_({LogLevel::kInfo, "outage-over", {{"part", std::string(part)}}});
    } else {
      log_({LogLevel::kError,
            "outage",
            {{"part", std::string(part)}, {"error", std::string(trouble)}}});
    }
  }

 private:
  const Log& log_;
  std::map<std::string, std::string, std::less<>> known_;  // trouble as last said, by part
};

}  // namespace weir::server
