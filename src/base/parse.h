/* parse.h - numbers from text that people wrote: the whole string must be a number. */
#pragma once

#include <stdint.h>

/* parse_u64() - decimal digits only: no sign, no blanks, no suffix. -EINVAL or -ERANGE. */
int parse_u64(const char *text, uint64_t max, uint64_t *ret_value);

/* parse_u32() - the same with 32 bits. */
int parse_u32(const char *text, uint32_t max, uint32_t *ret_value);
