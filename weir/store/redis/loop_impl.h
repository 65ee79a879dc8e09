// What a loop is made of. For the files of this folder that use Asio.

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "weir/store/redis/loop.h"

namespace weir::store::redis {

struct Loop::Impl {
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      context.get_executor()};
  std::thread thread;
};

}  // namespace weir::store::redis
