/* keeper.h - the process that looks after a run while its programs live. */
#pragma once

#include "base/error.h"

#define KEEPER_NAME "ration-keeper" /* its process has */

/* keeper_start() - a process of its own, no child of the caller and without its terminal and files. Returns
 * when it has opened the run's files: the program, which may change them, starts afterwards. */
int keeper_start(const char *folder, const char *nvml_library, struct error *err);

/* keeper_main() - what it does. It writes the memory that no call of the driver shows (contexts, modules)
 * into the grant: NVML's sum over the run's processes less what they have charged; at once when one of them
 * asks for it, else every second. When none is left, it removes the run's folder. To the standard output it
 * says in a line that it is ready, or why not. Returns the status to exit with. */
int keeper_main(const char *folder, const char *nvml_library);
