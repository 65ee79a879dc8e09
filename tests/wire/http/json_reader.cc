// Boost's JSON, header-only: the reader that judges what this folder writes.

#include <boost/json/src.hpp>
