/* cuda-visible.h - which devices the driver is to show, and in which order.
 *
 * A program with a grant counts its GPUs from 0 in the grant's order, and so does CUDA_VISIBLE_DEVICES. The
 * driver counts all GPUs that it can open, in an order of its own, and reads that variable itself. So it is
 * given another value than the program has: UUIDs, which mean the same to both. docs/internals/devices.md
 * tells why the environment is not changed for that.
 */
#pragma once

#include <stdbool.h>

#include "grant/grant.h"

/* For each GPU a UUID and a comma. */
#define CUDA_VISIBLE_SIZE (GRANT_FILE_GPUS_MAX * sizeof(((struct grant_file_gpu *)0)->uuid))

/* cuda_visible_list() - the driver's list for the program's, which is NULL where the program has none. */
void cuda_visible_list(const struct grant_file *grant, const char *list, char ret_list[CUDA_VISIBLE_SIZE]);

/* cuda_visible_give() - from now on the driver that has this function finds that list in place of the
 * variable. Any number of threads. */
void cuda_visible_give(const void *function);

/* cuda_visible_give_all() - no list any more, where it is not the program that wants one. False: it is the
 * program, or the driver had no more than one GPU to show. */
bool cuda_visible_give_all(void);
