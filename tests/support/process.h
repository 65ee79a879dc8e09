// A program that a test runs, and what it prints and says to its standard error.

#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace weir {

class Process {
 public:
  explicit Process(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string said = (dir_ / "said").string();
    const std::string printed = (dir_ / "printed").string();
    id_ = ::fork();
    if (id_ == 0) {
      redirect(said, STDERR_FILENO);
      redirect(printed, STDOUT_FILENO);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
  }
  ~Process() {
    if (id_ > 0) {
      signal(SIGKILL);
      wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  // Once it has been waited for there is nobody to signal; -1 would mean everybody.
  void signal(int number) const {
    if (id_ > 0) ::kill(id_, number);
  }

  // Its exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(id_, &status, 0), id_);
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // So far.
  std::string said() const { return contents("said"); }
  std::string printed() const { return contents("printed"); }

 private:
  static void redirect(const std::string& path, int to) {
    const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ::dup2(file, to);
    ::close(file);
  }
  std::string contents(const char* name) const {
    std::ifstream in(dir_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryDirectory dir_;
  pid_t id_ = -1;
};

}  // namespace weir
