/* keeper.h - the process that looks after a run while its programs live. */
#pragma once

#include "base/error.h"

#define KEEPER_NAME "ration-keeper" /* its process has */

/* keeper_start() - a process of its own, no child of the caller and without its terminal and files. */
int keeper_start(const char *folder, const char *nvml_library, struct error *err);

/* keeper_main() - what it does. It writes the memory that no call of the driver shows (contexts, modules)
 * into the grant: NVML's sum over the run's processes less what they have charged; at once when one of them
 * asks for it, else every second. When none is left, it removes the run's folder. Returns the status to exit
 * with. */
int keeper_main(const char *folder, const char *nvml_library);
