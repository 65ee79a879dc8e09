// `weir version`: which build this is.

#pragma once

namespace weir::app {

int run_version(bool json);

}  // namespace weir::app
