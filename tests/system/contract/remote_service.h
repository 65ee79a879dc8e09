// A service to follow that answers as it is told: service.py, on loopback.

#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/temporary_directory.h"

namespace weir::system::contract {

class RemoteService {
 public:
  explicit RemoteService(std::string certificate = "") : certificate_(std::move(certificate)) {
    ::setenv("no_proxy", "*", 1);  // a proxy of the environment does not reach loopback
    behave("ok");
    start();
  }

  void start() {
    process_ = std::make_unique<Process>(words());
    ASSERT_TRUE(eventually([&] { return process_->printed().find('\n') != std::string::npos; }))
        << process_->said();
    std::istringstream first(process_->printed());
    std::string word;
    first >> word >> port_;
    ASSERT_EQ(word, "port");
  }
  void stop() { process_.reset(); }

  // From the next request on: ok, other, slow, drip, garbage, huge, revoked TOKEN, or
  // status NUMBER [HEADER=VALUE...], with _ for a space.
  void behave(const std::string& mode) const {
    std::ofstream(dir_ / "next") << mode;
    std::filesystem::rename(dir_ / "next", dir_ / "mode");
  }

  std::string url() const {
    return (certificate_.empty() ? "http" : "https") + std::string("://127.0.0.1:") +
           std::to_string(port_);
  }

  // What it was asked so far: method, target, Authorization, body.
  std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    std::istringstream all(process_->printed());
    for (std::string line; std::getline(all, line);) lines.push_back(line);
    lines.erase(lines.begin());
    return lines;
  }

 private:
  std::vector<std::string> words() const {
    std::vector<std::string> words = {"/usr/bin/python3", WEIR_REMOTE_SERVICE,
                                      (dir_ / "mode").string(), std::to_string(port_)};
    if (!certificate_.empty()) words.push_back(certificate_);
    return words;
  }

  TemporaryDirectory dir_;
  std::string certificate_;
  int port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace weir::system::contract
