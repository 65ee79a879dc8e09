// JSON scanner: reads a JSON text value by value and always knows where it is.
//
// Nothing is built: a reader that knows the shape of a document walks it, and learns the
// first thing that is not JSON, with line and column. A line's columns count bytes.
//
//   JsonScanner json(text);
//   json.enter_object();
//   while (json.next_member(key)) { if (key == "name") json.read_string(name); ... }
//   if (!json.ok()) report(json.problem(), json.problem_at());
//
// Once something was wrong every call answers false and changes nothing.
//
// Thread safety: none; one thread uses a scanner.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::system::throttle {

struct Place {
  std::uint32_t line = 1;
  std::uint32_t column = 1;

  friend bool operator==(const Place&, const Place&) = default;
};

enum class JsonKind : std::uint8_t { kObject, kArray, kString, kNumber, kBool, kNull, kNothing };

std::string_view to_string(JsonKind kind) noexcept;  // `a list`

class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) noexcept : text_(text) {}

  // Of the next value, which is not read.
  JsonKind kind() noexcept;
  // Where the next value begins.
  Place place() noexcept;
  // The first bytes of the next value, for a message.
  std::string_view shown() noexcept;

  bool enter_object();
  // The key of the next member, whose value is then to be read; false: there is none, or
  // something is wrong.
  bool next_member(std::string& key);
  Place member_place() const noexcept { return member_place_; }

  bool enter_array();
  bool next_element();  // its value is then to be read

  bool read_string(std::string& out);
  bool read_number(std::string_view& out);  // as it is written
  bool read_bool(bool& out);
  bool read_null();

  // After the last value: whether nothing but space follows.
  bool at_end();

  bool ok() const noexcept { return problem_.empty(); }
  const std::string& problem() const noexcept { return problem_; }
  Place problem_at() const noexcept { return problem_at_; }

 private:
  void skip_space() noexcept;
  Place place_of(std::size_t offset) const noexcept;
  bool fail(std::string problem, std::size_t offset);
  bool expect(char c, std::string_view what);
  bool read_word(std::string_view word);
  bool read_escape(std::string& out);
  bool read_code_unit(std::uint32_t& out);
  bool read_character(std::string& out);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;
  bool is_first_ = false;  // nothing was read yet of the object or list just entered
  Place member_place_{};
  std::string problem_;
  Place problem_at_{};
};

}  // namespace weir::system::throttle
