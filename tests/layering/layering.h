// Layering: which folder of weir/ may include which.
//
// A folder uses only what stands above it in the design. Systems, stores and
// protocols are each split in folders that do not know each other. What is quoted
// is weir's own and named from the root, so that a path says which folder it is
// of; tests, programs and benchmarks use the library, never the other way round.

//
// Time is an argument: the clocks of the operating system and of the standard library are named in
// weir/base/clock.{h,cc} alone, so that all that waits or expires can be tested with a clock that
// moves when told. Timers (asio's steady_timer) are no clocks: nothing is read from them. Nor does
// a thread sleep, or wait for so long, in the machine's time: what has a deadline waits by its
// Clock (weir/base/timed_wait.h). The few files that may are listed with their reasons.

#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weir::layering {

// One `#include` that must not be, as `file:line: why`.
// `path` and `text` are of a file under weir/; the path starts with `weir/`.
std::vector<std::string> violations(std::string_view path, std::string_view text);

// The same over every header and source file below `root`/weir.
std::vector<std::string> violations_below(const std::string& root, std::size_t& files);

// One clock that must not be named, as `file:line: why`. Comments may name it.
// `path` is of a file under weir/ or apps/.
std::vector<std::string> clocks(std::string_view path, std::string_view text);

// The same over every header and source file below `root`/weir and `root`/apps.
std::vector<std::string> clocks_below(const std::string& root, std::size_t& files);

// One wait in the machine's time, as `file:line: why`: a sleep, or a wait of a lock for so long.
// `path` is of a file under weir/ or apps/.
std::vector<std::string> naps(std::string_view path, std::string_view text);

// The same over every header and source file below `root`/weir and `root`/apps. `needless`: files
// that may nap and do not.
std::vector<std::string> naps_below(const std::string& root, std::vector<std::string>& needless);

// Libraries, by name, and those that each uses: the folder weir/wire/resp is the library wire_resp.
using Uses = std::map<std::string, std::set<std::string>>;

// Adds what a file includes of other libraries.
void add_uses(std::string_view path, std::string_view text, Uses& uses);

// Of every file below `root`/weir.
Uses uses_below(const std::string& root);

}  // namespace weir::layering
