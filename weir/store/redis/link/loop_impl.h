// What a loop is made of. For the files of this folder that use Asio.

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <thread>

#include "weir/store/redis/link/loop.h"

namespace weir::store::redis {

struct Loop::Impl {
  std::unique_ptr<boost::asio::io_context> own;  // nullptr: one that was there before is used
  boost::asio::io_context& context;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      context.get_executor()};
  std::thread thread{};
};

}  // namespace weir::store::redis
