// Reply writer: answers in the Redis protocol, appended to the caller's buffer.
//
// A connection begins in version 2, and a client may ask for 3 with HELLO. What
// version 2 has no word for is written as Redis writes it there:
//
//                     version 2                version 3
//     null            $-1                      _
//     null array      *-1                      _
//     boolean         :1, :0                   #t, #f
//     map of n pairs  *2n                      %n
//     verbatim text   $<bytes>, the text       =<bytes>, txt:, the text
//
// An array or map is its header and then, by further calls, as many elements.
// Replies to a pipeline go into one buffer and leave in one write.
//
// Thread safety: none. A writer belongs to one connection.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weir::wire::resp {

class ReplyWriter {
 public:
  // `out` must outlive the writer. It may be cleared or moved from between two calls.
  explicit ReplyWriter(std::string& out) noexcept : out_(out) {}

  int version() const noexcept { return version_; }
  std::size_t bytes() const noexcept { return out_.size(); }  // in the buffer
  // Requires 2 or 3.
  void set_version(int version) noexcept;

  // CR and LF in the text become spaces: they would end the reply.
  void write_simple(std::string_view text);
  // The first word is the code that clients match on. CR and LF become spaces.
  void write_error(std::string_view text);

  void write_integer(std::int64_t value);
  void write_boolean(bool value);
  void write_bulk(std::string_view bytes);
  void write_verbatim(std::string_view text);
  void write_null();
  void write_null_array();

  // `count` elements follow.
  void begin_array(std::size_t count);
  // `pairs` times a key and its value follow. Requires pairs <= 2^62.
  void begin_map(std::size_t pairs);

  // A bulk string and an integer, such as an entry of a map.
  void write_entry(std::string_view key, std::int64_t value);

  // What was written is sent once this record and those before it are on disk; 0: at once.
  void wait_for(std::uint64_t record) noexcept { record_ = std::max(record_, record); }
  std::uint64_t record() const noexcept { return record_; }

  // Bytes that are replies already, in this version.
  void write_replies(std::string_view bytes);

  // A whole array of integers.
  void write_integers(std::span<const std::int64_t> values);

 private:
  void write_line(char type, std::string_view text);
  void write_number(char type, std::int64_t value);

  std::string& out_;
  std::uint64_t record_ = 0;
  int version_ = 2;
};

}  // namespace weir::wire::resp
