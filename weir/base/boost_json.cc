// Boost.JSON, compiled once for all that read or write it, and in a file of its own: a program that
// has it already does not take it out of the archive a second time.

#include <boost/json/src.hpp>
