/* pacing-graphs.h - an executable graph costs what it cost last, until it is changed. */
#pragma once

#include "shim/pacing.h"

/* graph_key() - for pacing_begin(). */
uint64_t graph_key(CUgraphExec exec);
