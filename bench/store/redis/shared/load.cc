// A client for `./dev bench shared`, cheap enough to leave the processors to what is measured.
//
//   weir-load PORT CONNECTIONS PIPELINE COUNT WORD...
//
// Sends the command COUNT times over all connections together. Each connection has PIPELINE of
// them under way and sends the next when all are answered. `__rand_int__` in a word becomes one
// of 100,000 numbers, another one each time. A reply that is an error, or a denial, ends it.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir {
namespace {

constexpr std::string_view kPlaceholder = "__rand_int__";
constexpr std::string_view kDenied = "denied";
constexpr std::uint64_t kKeys = 100'000;

[[noreturn]] void stop(std::string_view why) {
  fmt::print(stderr, "weir-load: {}\n", why);
  std::exit(1);
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    stop(fmt::format("'{}' is not a number", text));
  }
  return value;
}

class Command {
 public:
  explicit Command(const std::vector<std::string_view>& words) {
    text_ = fmt::format("*{}\r\n", words.size());
    for (const std::string_view word : words) {
      const std::size_t begin = text_.append(fmt::format("${}\r\n", word.size())).size();
      text_.append(word).append("\r\n");
      const std::size_t place = word.find(kPlaceholder);
      if (place != word.npos) places_.push_back(begin + place);
    }
  }

  void append_to(std::string& out) {
    const std::size_t begin = out.size();
    out.append(text_);
    for (const std::size_t place : places_) {
      std::uint64_t rest = random_() % kKeys;
      for (std::size_t i = kPlaceholder.size(); i-- > 0; rest /= 10) {
        out[begin + place + i] = static_cast<char>('0' + rest % 10);
      }
    }
  }

 private:
  std::string text_;
  std::vector<std::size_t> places_;
  std::minstd_rand random_{std::random_device{}()};
};

// Counts the replies in what arrives, in whatever pieces.
class Replies {
 public:
  std::int64_t count(std::string_view bytes) {
    std::int64_t whole = 0;
    while (!bytes.empty()) {
      if (skip_ > 0) {
        const std::size_t here = std::min(skip_, bytes.size());
        skip_ -= here;
        bytes.remove_prefix(here);
        if (skip_ == 0 && --due_ == 0) whole += 1;
        continue;
      }
      const std::size_t end = bytes.find('\n');
      line_.append(bytes.substr(0, end));
      if (end == bytes.npos) break;
      bytes.remove_prefix(end + 1);
      line_.pop_back();
      if (due_ == 0) due_ = 1;
      take_line();
      line_.clear();
      if (skip_ == kDenied.size() + 2 && bytes.starts_with(kDenied)) stop("a request was denied");
      if (due_ == 0) whole += 1;
    }
    return whole;
  }

 private:
  void take_line() {
    const std::string_view rest = std::string_view(line_).substr(1);
    switch (line_.front()) {
      case '-':
        stop(line_);
      case '*':
        due_ += std::max<std::int64_t>(0, number(rest)) - 1;  // below 0: none
        break;
      case '$':
        if (rest.front() == '-') {
          due_ -= 1;
        } else {
          skip_ = static_cast<std::size_t>(number(rest)) + 2;
        }
        break;
      default:
        due_ -= 1;
    }
  }

  std::string line_;      // the beginning of one
  std::size_t skip_ = 0;  // bytes of a text, and its line end
  std::int64_t due_ = 0;  // elements of the reply that are not there yet
};

struct Connection {
  int socket = -1;
  std::int64_t due = 0;
  Replies replies{};
};

int connected(std::int64_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    stop(fmt::format("nobody listens on port {}", port));
  }
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return socket;
}

class Load {
 public:
  Load(Command command, std::int64_t pipeline, std::int64_t count)
      : command_(std::move(command)), pipeline_(pipeline), unsent_(count), unanswered_(count) {}

  void run(std::int64_t port, std::int64_t connections) {
    std::vector<Connection> all(static_cast<std::size_t>(connections));
    for (Connection& one : all) {
      one.socket = connected(port);
      epoll_event wanted{EPOLLIN, {.ptr = &one}};
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, one.socket, &wanted);
    }
    for (Connection& one : all) send(one);
    std::array<epoll_event, 64> ready;
    while (unanswered_ > 0) {
      const int found = ::epoll_wait(epoll_, ready.data(), ready.size(), 20'000);
      if (found == 0) stop(fmt::format("port {} has not answered for 20 s", port));
      for (int i = 0; i < found; ++i) {
        receive(*static_cast<Connection*>(ready[static_cast<std::size_t>(i)].data.ptr));
      }
    }
  }

 private:
  void send(Connection& to) {
    to.due = std::min(pipeline_, unsent_);
    unsent_ -= to.due;
    output_.clear();
    for (std::int64_t i = 0; i < to.due; ++i) command_.append_to(output_);
    std::string_view left = output_;
    while (!left.empty()) {
      const ssize_t sent = ::send(to.socket, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0) stop("the connection is lost");
      left.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  void receive(Connection& from) {
    const ssize_t got = ::recv(from.socket, input_.data(), input_.size(), 0);
    if (got <= 0) stop("the connection is lost");
    const std::int64_t replies = from.replies.count({input_.data(), static_cast<std::size_t>(got)});
    from.due -= replies;
    unanswered_ -= replies;
    if (from.due == 0 && unsent_ > 0) send(from);
  }

  Command command_;
  std::int64_t pipeline_;
  std::int64_t unsent_;
  std::int64_t unanswered_;
  int epoll_ = ::epoll_create1(0);
  std::string output_;
  std::string input_ = std::string(std::size_t{256} << 10, '\0');
};

}  // namespace
}  // namespace weir

int main(int count, char** arguments) {
  const std::vector<std::string_view> words(arguments, arguments + count);
  if (words.size() < 6) weir::stop("usage: weir-load PORT CONNECTIONS PIPELINE COUNT WORD...");
  weir::Load load(weir::Command({words.begin() + 5, words.end()}), weir::number(words[3]),
                  weir::number(words[4]));
  load.run(weir::number(words[1]), weir::number(words[2]));
}
