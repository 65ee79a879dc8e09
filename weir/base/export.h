// Export: marks what a shared library of weir offers.
//
// Weir is compiled with hidden visibility: a shared library offers only the classes and functions
// with this mark, and what installed headers define inline. In a static library it does nothing.

#pragma once

#define WEIR_EXPORT __attribute__((visibility("default")))
