/* memory-arrays.h - tells memory-arrays.c about blocks of other small memory, in which small arrays may be
 * too. */
#pragma once

#include <stdbool.h>

#include "shim/memory-contexts.h"

/* arrays_keep_block() - called when the last other memory has left a block of this context. True: arrays may
 * be in the block, and its charge belongs to them from now on. */
bool arrays_keep_block(const struct memory_here *here);

/* arrays_room_changed() - called when other memory has entered or left a block of this context. */
void arrays_room_changed(const struct memory_here *here);
