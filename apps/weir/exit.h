// Exit codes of the command line, the same for every command.

#pragma once

namespace weir::app {

enum Exit : int {
  kExitOk = 0,           // done; of `ask`: allowed
  kExitFailed = 1,       // a mistake in a file, or something that failed
  kExitUsage = 2,        // wrong usage: the command must be written otherwise
  kExitDenied = 3,       // not now; the same request may pass later
  kExitNever = 4,        // waiting will not help
  kExitUnreachable = 5,  // the server cannot be reached, or lets us not in
};

}  // namespace weir::app
