/* hash.h - FNV-1a, for names and comparisons that must be the same in each process. It is no protection
 * against someone who chooses the data. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* hash_add() - the hash of what was hashed so far, followed by this data. It begins with HASH_START. */
#define HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t hash_add(uint64_t hash, const void *data, size_t len);
