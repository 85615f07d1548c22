/* memory-arrays.h - what other small memory tells of the blocks in which there may be small arrays. */
#pragma once

#include <stdbool.h>

#include "shim/memory-contexts.h"

/* arrays_keep_block() - other memory has left a block of this context. True: there may be arrays in it, and
 * its charge is theirs from now on. */
bool arrays_keep_block(const struct memory_here *here);

/* arrays_room_changed() - other memory has come into a block of this context, or left one. */
void arrays_room_changed(const struct memory_here *here);
