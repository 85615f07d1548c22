#include "kube/base64.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static int digit(char c)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *found = c ? strchr(alphabet, c) : NULL;

	return found ? (int)(found - alphabet) : -1;
}

int base64_decode(const char *text, char **ret_text)
{
	_cleanup_free_ char *out = malloc(strlen(text) / 4 * 3 + 4);
	size_t len = 0, digits = 0, padding = 0;
	uint32_t bits = 0;

	if (!out)
		return -ENOMEM;
	for (const char *p = text; *p; p++) {
		if (strchr(" \t\r\n", *p))
			continue;
		if (*p == '=') {
			padding++;
			continue;
		}
		if (digit(*p) < 0 || padding)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)digit(*p);
		if (++digits % 4 != 1)
			out[len++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)));
	}
	if ((digits + padding) % 4 || padding > 2 || len == 0 || memchr(out, '\0', len))
		return -EINVAL;
	out[len] = '\0';
	*ret_text = TAKE_PTR(out);
	return 0;
}
