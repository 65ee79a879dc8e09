// Parts: state of systems, kept whole beside meters and holds.
//
// A system that keeps its own state gives it to the store as bytes under a name; the
// store writes them in the flush that writes the meters, and gives them back before
// anything is decided.
//
// Thread safety: as the implementation says; the store calls it from one thread at a time.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/store/sqlite/database.h"

namespace weir::store::sqlite {

struct Part {
  std::string name;  // unique
  std::vector<std::byte> bytes;
};

// A part that could not be brought back. Its bytes are kept in the file under another name.
struct UnusablePart {
  std::string name;
  std::string why;
  std::string kept_as;  // in the table `facts`
};

class Parts {
 public:
  virtual ~Parts() = default;

  // The parts that changed since the last call, each of them whole.
  virtual std::vector<Part> changed(Instant now) = 0;
  // They could not be written: the next call of changed() returns them again.
  virtual void mark_changed(const std::vector<Part>& parts) = 0;
  // Brings one back. A name that is not known any more is not an error; bytes that are not
  // a part are, and then nothing has changed: the part begins as it is.
  virtual Status restore(std::string_view name, Bytes bytes, Instant now) = 0;
};

}  // namespace weir::store::sqlite
