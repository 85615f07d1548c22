/* keeper.h - the process that maintains a run while its programs live. */
#pragma once

#include "base/error.h"

#define KEEPER_NAME "ration-keeper" /* the name of its process */

/* keeper_start() - starts a separate process that is not a child of the caller and has none of its terminal
 * and files. Returns when it has opened the run's files, because the program, which starts afterwards, may
 * change them. */
int keeper_start(const char *folder, const char *nvml_library, struct error *err);

/* keeper_main() - the work of that process. It writes into the grant the memory that no call of the driver
 * shows (contexts, modules): NVML's sum over the run's processes less what they have charged. It does so at
 * once if one of them asks for it, else every second. When no process is left, it removes the run's folder.
 * It writes one line to standard output that says that it is ready, or why not. Returns the exit status. */
int keeper_main(const char *folder, const char *nvml_library);
