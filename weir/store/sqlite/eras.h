// Eras: which records of a limit still count.
//
// An engine counts the eras of a limit from 0: a limit that was gone for a while, or
// changed between slots and spending, begins another one, and nothing of an earlier
// one counts. Each process counts anew, so a record says of which process its era is.
// A limit that never began another era has no entry, and all its records count.
//
// Thread safety: a value.

#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace weir::store::sqlite {

struct Era {
  std::uint64_t process = 0;
  std::uint64_t era = 0;

  friend bool operator==(const Era&, const Era&) = default;
};

class Eras {
 public:
  void set(const std::string& limit, Era current) { current_[limit] = current; }

  bool counts(const std::string& limit, Era of_record) const {
    const auto found = current_.find(limit);
    if (found == current_.end()) return true;
    // A later process that began no era of its own goes on with the last one.
    return of_record.process > found->second.process || of_record == found->second;
  }
  // Forgets the entries of earlier processes: for when no record is that old.
  void drop_before(std::uint64_t process) {
    std::erase_if(current_, [&](const auto& entry) { return entry.second.process < process; });
  }

  const std::map<std::string, Era>& all() const { return current_; }
  friend bool operator==(const Eras&, const Eras&) = default;

 private:
  std::map<std::string, Era> current_;
};

}  // namespace weir::store::sqlite
