/* started.h - what the generated answers before cuInit depend on (before-init.txt). */
#pragma once

#include <stdbool.h>

bool driver_has_started(void);
bool driver_init_failed(void);

/* driver_version() - the CUDA version of the tree's driver: 12040 is 12.4. INT_MAX without a tree. */
int driver_version(void);
