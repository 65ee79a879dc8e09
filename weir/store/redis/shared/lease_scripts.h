// Lease scripts: drawing units ahead of need, and giving them back.
//
// A draw charges the meter as a decision would. Whoever draws does not know how much is left,
// and Lua cannot divide exactly, so it names amounts, the largest first, and gets the first that
// is there. Beside the meter there is a record of what each server holds, as it said last, and
// until when; both scripts give back what is in it of leases that have ended. Blobs as in
// scripts.h, amounts as append_amount() writes them.

#pragma once

#include <string_view>

namespace weir::store::redis {

// Charges the first amount that fits.
//   KEYS  epoch, the limit, its record
//   ARGV  now (empty: the time of the server), '', the epoch as last seen, a fresh epoch, a blob
//         with a cost to be told about, the id of this server, the length of its lease in us,
//         what it holds beside: instants (7 bytes) and amounts; then each amount to be tried,
//         and the same without what is used at once; the number of this message; the first 16
//         bytes of the epoch in which was drawn what it holds; from when on it counts as taken back
//   reply  which amount it was, from 1, or 0: none; now; the epoch if it is not as last seen, else
//         ''; the state afterwards, two numbers as decide_script() says, a log's for the cost to be
//         told about; under which instant it was charged
std::string_view draw_script();

// Gives units back. Nothing happens if the data is not the same any more, or the lease has ended.
//   KEYS  epoch, the limit, its record
//   ARGV  now, the first 16 bytes of the epoch in which they were drawn, a blob of no cost, what
//         goes back, the id of this server, what it holds still, the end of its lease, the number
//         of this message
//   reply  1, or 0: too late
std::string_view give_back_script();

}  // namespace weir::store::redis
