// Boost's JSON, header-only: the reader that judges what the program prints.

#include <boost/json/src.hpp>
