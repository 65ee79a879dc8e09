// Memory: what a key costs.

#pragma once

namespace weir::bench {

// Resident bytes a key, the mean over 1.0, 1.25, 1.5 and 1.75 million keys.
double bytes_per_key();

}  // namespace weir::bench
