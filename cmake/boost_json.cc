// Boost.JSON, compiled once for all that read or write it.

#include <boost/json/src.hpp>
