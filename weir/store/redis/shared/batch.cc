// Decisions that one thread asks in one turn of its loop leave for Redis together, in one script.

#include <algorithm>
#include <utility>
#include <variant>

#include "weir/base/assert.h"
#include "weir/store/redis/shared/asked.h"
#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/limits.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

using engine::SharedItem;

// A script that holds Redis up longer than this many take would be felt by others.
constexpr std::size_t kBatchKeysMax = 64;

// Two letters and the five numbers that a bucket has. Redis keeps arguments of up to 44 bytes in
// one piece, which takes it less time.
constexpr std::size_t kBucketBlobBytes = 42;

void append_bucket(std::string& out, const SharedItem& item, Instant now) {
  const std::size_t begin = out.size();
  append_blob(out, item.rule->shape, item.cost, item.rule->shadow ? '1' : '0', now);
  out.resize(begin + kBucketBlobBytes);
}

// What a script needs to know of many buckets: few are different.
class Terms {
 public:
  // The place of the item's terms, from 1.
  char place_of(const SharedItem& item, Instant now) {
    const auto known = std::find_if(told_.begin(), told_.end(), [&](const Told& one) {
      return one.rule == item.rule && one.cost == item.cost;
    });
    if (known != told_.end()) return static_cast<char>(known - told_.begin() + 1);
    told_.push_back({item.rule, item.cost});
    append_bucket(text_, item, now);
    return static_cast<char>(told_.size());
  }

  template <typename Arguments>
  void append_to(Arguments& arguments) const {
    for (std::size_t i = 0; i < told_.size(); ++i) {
      arguments.push_back(std::string_view(text_).substr(i * kBucketBlobBytes, kBucketBlobBytes));
    }
  }

 private:
  struct Told {
    const engine::Rule* rule;
    std::int64_t cost;
  };
  boost::container::small_vector<Told, 8> told_;  // at most one for each key
  std::string text_;
};

}  // namespace

// No key is there twice, so that what a script reads first is what each decision meets.
struct SharedLimits::Batch {
  std::vector<std::shared_ptr<Asked>> asked;
  boost::container::small_vector<engine::Print, kBatchKeysMax> prints;  // of their keys
  bool is_posted = false;  // it will be sent once the thread has done what it does

  bool takes(const Asked& more) const {
    if (prints.size() + more.items.size() > kBatchKeysMax) return false;
    return std::none_of(more.items.begin(), more.items.end(), [this](const SharedItem& item) {
      return std::find(prints.begin(), prints.end(), item.print) != prints.end();
    });
  }
  void add(std::shared_ptr<Asked> more) {
    for (const SharedItem& item : more->items) prints.push_back(item.print);
    asked.push_back(std::move(more));
  }
};

struct SharedLimits::Attached {
  const SharedLimits* owner;
  Loop& loop;
  std::unique_ptr<Client> client;
  std::shared_ptr<Batch> batch = std::make_shared<Batch>();
};

SharedLimits::Attached*& SharedLimits::attached_here() {
  thread_local Attached* mine = nullptr;
  return mine;
}

void SharedLimits::attach(Loop& loop) {
  loop.run([&] {
    WEIR_ASSERT(attached_here() == nullptr);
    const std::shared_ptr<Attached> attached(
        new Attached{this, loop, make_client(loop, client_options())});
    attached_here() = attached.get();
    const std::scoped_lock lock(lock_);
    attached_.emplace(&loop, attached);
  });
}

void SharedLimits::detach(Loop& loop) {
  loop.run([&] {
    WEIR_ASSERT(attached_here() != nullptr);
    WEIR_ASSERT(attached_here()->owner == this);
    send_batch();
    attached_here() = nullptr;
    std::shared_ptr<Attached> attached;
    {
      const std::scoped_lock lock(lock_);
      attached = std::move(attached_.at(&loop));
      attached_.erase(&loop);
    }
  });
}

// A thread keeps to one connection, so that what it asks at once leaves at once.
Client& SharedLimits::client() {
  const Attached* const attached = attached_here();
  if (attached != nullptr && attached->owner == this) return *attached->client;
  static std::atomic<unsigned> threads{0};
  thread_local const unsigned mine = threads.fetch_add(1, std::memory_order_relaxed);
  return *clients_[mine % clients_.size()];
}

void SharedLimits::ask_buckets(std::shared_ptr<Asked> asked) {
  const Attached* const attached = attached_here();
  if (attached == nullptr || attached->owner != this) return ask_together({std::move(asked)});
  Batch& batch = *attached->batch;
  if (!batch.takes(*asked)) send_batch(batch);
  batch.add(std::move(asked));
  if (std::exchange(batch.is_posted, true)) return;
  attached->loop.post([this, kept = attached->batch] {
    kept->is_posted = false;
    if (kept->asked.empty()) return;  // sent already; nobody may be here any more
    send_batch(*kept);
    const Attached* const here = attached_here();
    if (here != nullptr && here->batch == kept) here->client->flush();
  });
}

void SharedLimits::send_batch() {
  const Attached* const attached = attached_here();
  if (attached != nullptr && attached->owner == this) send_batch(*attached->batch);
}

void SharedLimits::send_batch(Batch& batch) {
  batch.prints.clear();
  if (!batch.asked.empty()) ask_together(std::exchange(batch.asked, {}));
}

bool SharedLimits::have_refilled(std::span<const std::shared_ptr<Asked>> all,
                                 const Epoch& known) const {
  if (known.lost_at_us < 0) return false;
  if (known.lost_at_us == 0) return true;
  const std::int64_t since_us = heard_at_us_.load(std::memory_order_relaxed) - known.lost_at_us;
  return std::all_of(all.begin(), all.end(), [&](const std::shared_ptr<Asked>& asked) {
    return std::all_of(asked->items.begin(), asked->items.end(), [&](const SharedItem& item) {
      const auto& shape = std::get<meter::BucketShape>(item.rule->shape);
      return since_us > shape.fill.ns / kNsPerUs + 2;  // whatever is rounded here or there
    });
  });
}

void SharedLimits::ask_together(std::vector<std::shared_ptr<Asked>> all) {
  const Epoch& known = epoch();
  // Where something was lost, the other script knows what that means.
  if (!have_refilled(all, known)) {
    for (const std::shared_ptr<Asked>& asked : all) ask_all(asked, epoch());
    return;
  }
  if (all.size() == 1 && all[0]->items.size() == 1) return ask_one_bucket(all[0], known);
  boost::container::small_vector<std::string_view, kBatchKeysMax + 1> keys = {epoch_key_};
  std::string plan;
  Terms terms;
  for (const std::shared_ptr<Asked>& asked : all) {
    keys.insert(keys.end(), asked->keys.begin(), asked->keys.end());
    plan += static_cast<char>(asked->items.size());
    for (const SharedItem& item : asked->items) plan += terms.place_of(item, asked->now);
  }
  const std::string now = now_argument();
  boost::container::small_vector<std::string_view, 12> arguments = {now, known.seen, plan};
  terms.append_to(arguments);
  client().call(
      shared_scripts().buckets, keys, arguments,
      [this, all = std::move(all)](const Answer& answer) { on_decided_together(all, answer); });
}

void SharedLimits::ask_one_bucket(const std::shared_ptr<Asked>& asked, const Epoch& known) {
  const std::array<std::string_view, 2> keys = {epoch_key_, asked->keys[0]};
  std::string terms;
  append_bucket(terms, asked->items[0], asked->now);
  const std::string now = now_argument();
  const std::array<std::string_view, 3> arguments = {now, known.seen, terms};
  client().call(shared_scripts().one_bucket, keys, arguments, [this, asked](const Answer& answer) {
    // Another epoch: what that means, the other script knows.
    if (answer.ok() && !answer.reply().text()) return ask_all(asked, epoch());
    on_decided(*asked, answer);
  });
}

void SharedLimits::on_decided_together(std::span<const std::shared_ptr<Asked>> all,
                                       const Answer& answer) {
  if (!answer.ok()) {
    for (const std::shared_ptr<Asked>& asked : all) on_decided(*asked, answer);
    return;
  }
  const auto text = answer.reply().text();
  if (!text) {
    for (const std::shared_ptr<Asked>& asked : all) ask_all(asked, epoch());
    return;
  }
  std::size_t count = 1;
  for (const std::shared_ptr<Asked>& asked : all) count += 1 + 2 * asked->items.size();
  const bool is_odd = text->size() != 8 * count;
  note_success();
  std::size_t next = 1;
  for (const std::shared_ptr<Asked>& asked : all) {
    answered_.fetch_add(1, std::memory_order_relaxed);
    if (is_odd) {
      asked->callback(odd_reply("a decision"));
      continue;
    }
    boost::container::small_vector<std::int64_t, 16> numbers;
    const auto take = [&] { numbers.push_back(read_double(text->substr(8 * next++))); };
    take();
    numbers.push_back(read_double(*text));
    for (std::size_t i = 0; i < 2 * asked->items.size(); ++i) take();
    asked->callback(read_numbers(*asked, numbers));
  }
}

}  // namespace weir::store::redis
