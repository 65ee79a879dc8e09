// Tables: what a ledger has, each row found by its name.
//
// Internal to system/compute. An index holds places only, and looks at the names where they
// are, so a name is kept once. Rows never move: a table grows without a copy of itself.

#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/system/compute/ledger.h"

namespace weir::system::compute {

// The portals of a cluster are a list, so that a cluster with one costs no more than that.
struct Portal {
  std::string name;  // empty: free
  std::uint32_t cluster = 0;
  std::uint32_t next = 0;  // of the same cluster, if it is not the last
};

inline const std::string& name_of(const Cluster& cluster) noexcept { return cluster.wallet; }
inline const std::string& name_of(const Portal& portal) noexcept { return portal.name; }
inline const std::string& name_of(const Pool& pool) noexcept { return pool.name; }
inline const std::string& name_of(const WorkerRecord& worker) noexcept { return worker.name; }

template <typename Row>
class NamedRows {
 public:
  std::optional<std::uint32_t> find(std::string_view name) const noexcept {
    const auto found = index_.find(name);
    return found == index_.end() ? std::nullopt : std::optional(*found);
  }
  // A row of the same name, if there is one, is no longer found.
  std::uint32_t add(Row row) {
    if (const auto same = index_.find(std::string_view(name_of(row))); same != index_.end()) {
      index_.erase(same);
    }
    const auto place = static_cast<std::uint32_t>(rows.size());
    rows.push_back(std::move(row));
    index_.insert(place);
    return place;
  }
  // The row may be written into its old place again, under any name, with put().
  void forget(std::uint32_t place) { index_.erase(place); }
  void put(std::uint32_t place, Row row) {
    rows[place] = std::move(row);
    index_.insert(place);
  }

  Rows<Row> rows;

 private:
  struct Names {
    using is_transparent = void;
    const Rows<Row>* rows;
    std::string_view at(std::uint32_t place) const noexcept { return name_of((*rows)[place]); }
    std::string_view at(std::string_view name) const noexcept { return name; }
  };
  struct Hash : Names {
    template <typename Key>
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<std::string_view>{}(this->at(key));
    }
  };
  struct Equal : Names {
    template <typename Left, typename Right>
    bool operator()(const Left& left, const Right& right) const noexcept {
      return this->at(left) == this->at(right);
    }
  };

  boost::unordered_flat_set<std::uint32_t, Hash, Equal> index_{0, Hash{{&rows}}, Equal{{&rows}}};
};

struct Ledger::Tables {
  NamedRows<Cluster> clusters;
  NamedRows<Portal> portals;
  std::vector<std::uint32_t> free_portals;
  NamedRows<WorkerRecord> workers;
  NamedRows<Pool> pools;
};

}  // namespace weir::system::compute
