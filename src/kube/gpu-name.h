/* gpu-name.h - what a GPU may be called. */
#pragma once

#include <stdbool.h>

/* gpu_name_is_valid() - a UUID as the driver writes them ("GPU-..", "MIG-.."): letters, digits, '-', '_' and
 * '.', shorter than GPU_UUID_SIZE, not beginning with '.'. It becomes part of variables, file names and
 * sentences. */
bool gpu_name_is_valid(const char *uuid);
