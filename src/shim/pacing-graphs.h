/* pacing-graphs.h - an executable graph costs what its last launch cost, until it is changed. */
#pragma once

#include "shim/pacing.h"

/* graph_key() - the key for pacing_begin(). */
uint64_t graph_key(CUgraphExec exec);
