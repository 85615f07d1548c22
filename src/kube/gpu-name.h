/* gpu-name.h - valid names of GPUs. */
#pragma once

#include <stdbool.h>

/* gpu_name_is_valid() - a UUID as the driver writes it ("GPU-..", "MIG-.."): letters, digits, '-', '_' and
 * '.', shorter than GPU_UUID_SIZE, not beginning with '.'. The name becomes part of variables, file names and
 * sentences. */
bool gpu_name_is_valid(const char *uuid);
