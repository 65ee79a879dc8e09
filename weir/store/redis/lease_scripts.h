// Lease scripts: drawing units ahead of need, and giving them back.
//
// A draw charges the meter as a decision would. Whoever draws does not know how much is left,
// and Lua cannot divide exactly, so it names amounts, the largest first, and gets the first that
// is there. Blobs as in shared_scripts.h.

#pragma once

#include <string_view>

namespace weir::store::redis {

// Charges the first amount that fits.
//   KEYS  epoch, the limit
//   ARGV  now (empty: the time of the server), '', the epoch as last seen, a fresh epoch, a blob
//         with a cost to be told about, then a blob for each amount
//   reply  which amount it was, from 1, or 0: none; now; the epoch if it is not as last seen, else
//         ''; the state afterwards, two numbers as decide_script() says, a log's for the cost to be
//         told about; under which instant it was charged
std::string_view draw_script();

// Gives units back. Nothing happens if the data is not the same any more.
//   KEYS  epoch, the limit
//   ARGV  now, the first 16 bytes of the epoch in which they were drawn, a blob with the amount,
//         the instant under which they were charged
//   reply  1, or 0: the data was lost
std::string_view give_back_script();

}  // namespace weir::store::redis
