/* ipc.h - what the rest has to do for memory that other processes have open. */
#pragma once

#include <stdint.h>

/* ipc_leave() - the process no longer holds it; the last removes its file. */
void ipc_leave(uint64_t id);
/* ipc_sweep() - remove the files of memory that nobody holds any more. */
void ipc_sweep(void);
