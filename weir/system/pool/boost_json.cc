// Boost.JSON, compiled into a file of its own: a program that has it already does
// not take it out of the archive a second time.

#include <boost/json/src.hpp>
