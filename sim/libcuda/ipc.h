/* ipc.h - calls that other files make for memory that other processes have open. */
#pragma once

#include <stdint.h>

/* ipc_leave() - the process no longer holds the memory; the last process removes its file. */
void ipc_leave(uint64_t id);
/* ipc_sweep() - removes files of memory that no process holds any more. */
void ipc_sweep(void);
