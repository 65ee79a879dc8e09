// JSON reader: a body, read in one pass straight into what it means.
//
// The caller knows the shape and asks for it: an object with these members, a text,
// a whole number. Whatever else is found is an error that says where, what was
// found, what was expected and what to write. There is no tree: texts are views into
// the body (those with escapes, which are rare, into `Texts`), so an ordinary
// request is read without allocating. Since every shape is fixed, nesting is bounded
// by the caller and not by the input.
//
//   Reader in(body, texts);
//   if (!in.object("the body", kMembers, into) || !in.end()) return in.error();
//
// Functions return false once something was wrong; the first error is kept.
//
// Thread safety: none; a reader belongs to one thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <span>
#include <string>
#include <string_view>

#include "weir/base/result.h"
#include "weir/base/time.h"

namespace weir::wire::http {

// Keeps the texts that had to be rewritten. Must outlive what was read.
using Texts = std::forward_list<std::string>;

// Names a value in an error: `hold`, or with what it lies in, `attributes.client`.
struct What {
  What(std::string_view name) noexcept : inner(name) {}
  What(const char* name) noexcept : inner(name) {}
  What(std::string_view outer_name, std::string_view name) noexcept
      : outer(outer_name), inner(name) {}

  std::string text() const;

  std::string_view outer{};
  std::string_view inner;
};

class Reader;

// One member of an object, and what reads its value.
template <typename Into>
struct Member {
  std::string_view name;
  bool (*read)(Reader& in, Into& into);
};

class Reader {
 public:
  Reader(std::string_view body, Texts& texts) noexcept : body_(body), texts_(texts) {}

  // An object with members out of `members`, each at most once. `what` names it.
  template <typename Into>
  bool object(std::string_view what, std::span<const Member<Into>> members, Into& into) {
    std::uint64_t seen = 0;
    std::string_view name;
    if (!open(what, '{', "an object", "{…}")) return false;
    for (bool first = true; next(first, '}', name); first = false) {
      std::size_t place = 0;
      while (place < members.size() && members[place].name != name) ++place;
      if (place == members.size()) return unknown(what, name, names_of(members));
      if ((seen >> place & 1) != 0) return repeated(what, name);
      seen |= std::uint64_t{1} << place;
      if (!members[place].read(*this, into)) return false;
    }
    return ok();
  }

  // An object with members of any name: `each(name)` reads a value.
  template <typename Each>
  bool map(std::string_view what, Each each) {
    std::string_view name;
    if (!open(what, '{', "an object", R"({"name":…})")) return false;
    for (bool first = true; next(first, '}', name); first = false) {
      if (!each(name)) return false;
    }
    return ok();
  }

  // A list: `each()` reads an element.
  template <typename Each>
  bool list(std::string_view what, Each each) {
    std::string_view no_name;
    if (!open(what, '[', "a list", "[…]")) return false;
    for (bool first = true; next(first, ']', no_name); first = false) {
      if (!each()) return false;
    }
    return ok();
  }

  bool text(const What& what, std::string_view& value);
  bool integer(const What& what, std::int64_t& value);
  bool flag(const What& what, bool& value);
  // A number as it is written, with a fraction and an exponent maybe, or a text, which may
  // hold one. Never empty.
  bool number_text(const What& what, std::string_view& value);
  // A text such as "1m30s", or a whole number of milliseconds. Never negative.
  bool duration(const What& what, Duration& value);

  // Nothing but white space follows.
  bool end();

  // Notes an error about the value that was read last, or is to be read: "`what` is
  // `found`, but it must be `expected`; write `example`".
  bool wrong(const What& what, std::string_view found, std::string_view expected,
             std::string_view example);
  // The same in the caller's own words.
  bool fail(std::string_view message);

  bool repeated(std::string_view what, std::string_view name);

  bool ok() const noexcept { return message_.empty(); }
  Error error() const { return bad_argument(message_); }

 private:
  template <typename Into>
  static std::string names_of(std::span<const Member<Into>> members) {
    std::string names;
    for (const Member<Into>& member : members) {
      if (!names.empty()) names += ", ";
      names += member.name;
    }
    return names;
  }

  bool open(std::string_view what, char bracket, std::string_view kind, std::string_view example);
  // Moves on to the next element, past the comma and, in an object, the name. False
  // at the closing bracket, or when something is wrong.
  bool next(bool first, char closing, std::string_view& name);
  bool unknown(std::string_view what, std::string_view name, std::string_view known);
  bool escaped(std::size_t begin, std::string_view& value);
  bool escape(std::string& out);
  bool code_unit(unsigned& unit);
  void skip_space() noexcept;
  char peek() const noexcept { return at_ < body_.size() ? body_[at_] : '\0'; }
  std::string found() const;

  std::string_view body_;
  Texts& texts_;
  std::size_t at_ = 0;
  std::size_t value_at_ = 0;  // where the last value, or name, began
  std::string message_;
};

}  // namespace weir::wire::http
