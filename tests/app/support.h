// The real program, run as people run it, against a server of its own.

#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/temporary_directory.h"

namespace weir::app {

struct Ran {
  int code;
  std::string out, err;
};

struct AppTest : ::testing::Test {
  static std::vector<std::string> weir(std::vector<std::string> words) {
    words.insert(words.begin(), WEIR_PROGRAM);
    return words;
  }
  static Ran run_words(const std::vector<std::string>& words) {
    Process process(words);
    const int code = process.wait();
    return {code, process.printed(), process.said()};
  }
  // Against the server that was started.
  Ran run(std::vector<std::string> words) const {
    words.insert(words.end(), {"--server", address});
    return run_words(weir(std::move(words)));
  }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  std::string path() const { return dir / "weir.yaml"; }

  // Starts `weir serve` and waits until it listens.
  void serve(const std::string& text, const std::vector<std::string>& options = {}) {
    write(text);
    std::vector<std::string> words = weir({"serve", path()});
    words.insert(words.end(), options.begin(), options.end());
    server = std::make_unique<Process>(words);
    ASSERT_TRUE(eventually([&] {
      address = port_after("127.0.0.1:");
      return !address.empty();
    })) << server->said();
  }
  // The address in the server's log that begins so, or nothing yet.
  std::string port_after(const std::string& host) const {
    const std::string log = server->said();
    const std::size_t begin = log.find(host);
    if (begin == std::string::npos) return {};
    const std::size_t end = log.find_first_not_of("0123456789", begin + host.size());
    return end == std::string::npos ? std::string() : log.substr(begin, end - begin);
  }

  TemporaryDirectory dir;
  std::unique_ptr<Process> server;
  std::string address;
};

constexpr const char* kConfig = R"(
listen: { resp: 127.0.0.1:0, http: none }
units: { tokens: whole }
limits:
  - { name: per-client, per: [client], window: { limit: 3, every: 10000d } }
  - { name: tokens, per: [client], unit: tokens, window: { limit: 1000, every: 10000d } }
  - { name: running, per: [worker], slots: { limit: 1, queue: 16, hold: 60s } }
  - { name: all, when: { kind: [total] }, window: { limit: 5, every: 10000d } }
)";

}  // namespace weir::app
