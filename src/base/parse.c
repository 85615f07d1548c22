#include "base/parse.h"

#include <errno.h>

int parse_u64(const char *text, uint64_t max, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (!*text)
		return -EINVAL;
	for (const char *p = text; *p; p++)
		if (*p < '0' || *p > '9')
			return -EINVAL;
	for (const char *p = text; *p; p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (value > (max - digit) / 10 || digit > max)
			return -ERANGE;
		value = value * 10 + digit;
	}
	*ret_value = value;
	return 0;
}

int parse_u32(const char *text, uint32_t max, uint32_t *ret_value)
{
	uint64_t value;
	int r = parse_u64(text, max, &value);

	if (r == 0)
		*ret_value = (uint32_t)value;
	return r;
}
