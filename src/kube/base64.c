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

int base64_decode_bytes(const char *text, uint8_t **ret_bytes, size_t *ret_len)
{
	_cleanup_free_ uint8_t *out = malloc(strlen(text) / 4 * 3 + 4);
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
			out[len++] = (uint8_t)(bits >> (6 - 2 * ((digits - 1) % 4)));
	}
	if ((digits + padding) % 4 || padding > 2 || len == 0)
		return -EINVAL;
	out[len] = '\0';
	*ret_bytes = TAKE_PTR(out);
	*ret_len = len;
	return 0;
}

int base64_decode(const char *text, char **ret_text)
{
	uint8_t *bytes;
	size_t len;
	int r = base64_decode_bytes(text, &bytes, &len);

	if (r < 0)
		return r;
	if (memchr(bytes, '\0', len)) {
		free(bytes);
		return -EINVAL;
	}
	*ret_text = (char *)bytes;
	return 0;
}
