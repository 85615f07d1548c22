/* cuda-visible.h - which devices the driver shows, and in which order.
 *
 * A program with a grant counts its GPUs from 0 in the grant's order, and CUDA_VISIBLE_DEVICES uses the same
 * numbers. The driver counts all GPUs that it can open, in its own order, and reads that variable itself. So
 * the driver gets another value than the program: a list of UUIDs, which mean the same to both.
 * docs/internals/devices.md explains why the environment itself is not changed.
 */
#pragma once

#include <stdbool.h>

#include "grant/grant.h"

/* A UUID and a comma for each GPU. */
#define CUDA_VISIBLE_SIZE (GRANT_FILE_GPUS_MAX * sizeof(((struct grant_file_gpu *)0)->uuid))

/* cuda_visible_list() - translates the program's list into the driver's. list: NULL if the program has
 * none. */
void cuda_visible_list(const struct grant_file *grant, const char *list, char ret_list[CUDA_VISIBLE_SIZE]);

/* cuda_visible_give() - from now on the driver that contains this function reads the translated list instead
 * of the variable. Any number of threads may call it. */
void cuda_visible_give(const void *function);

/* cuda_visible_give_all() - removes the translated list again, if the program has not set one itself. False:
 * the program has set one, or the driver had at most one GPU to show. */
bool cuda_visible_give_all(void);
