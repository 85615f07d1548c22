#include "base/strbuf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strbuf_init(struct strbuf *buf, size_t max)
{
	*buf = (struct strbuf){.max = max};
}

void strbuf_release(struct strbuf *buf)
{
	if (!buf)
		return;
	free(buf->data);
	*buf = (struct strbuf){.max = buf->max};
}

void strbuf_clear(struct strbuf *buf)
{
	buf->len = 0;
	buf->failed = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

static int strbuf_grow(struct strbuf *buf, size_t extra)
{
	size_t need, size;
	char *data;

	if (buf->failed)
		return buf->failed;
	if (extra > buf->max || buf->len > buf->max - extra)
		return buf->failed = -EMSGSIZE;
	need = buf->len + extra + 1;
	if (need <= buf->size)
		return 0;
	size = buf->size ? buf->size * 2 : 256;
	if (size < need)
		size = need;
	if (size > buf->max + 1)
		size = buf->max + 1;
	data = realloc(buf->data, size);
	if (!data)
		return buf->failed = -ENOMEM;
	buf->data = data;
	buf->size = size;
	return 0;
}

int strbuf_add(struct strbuf *buf, const void *data, size_t len)
{
	int r = strbuf_grow(buf, len);

	if (r < 0)
		return r;
	if (len)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return 0;
}

int strbuf_adds(struct strbuf *buf, const char *text)
{
	return strbuf_add(buf, text, strlen(text));
}

int strbuf_addf(struct strbuf *buf, const char *format, ...)
{
	va_list args, again;
	int n, r;

	va_start(args, format);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	r = n < 0 ? (buf->failed = -EINVAL) : strbuf_grow(buf, (size_t)n);
	if (r == 0) {
		vsnprintf(buf->data + buf->len, (size_t)n + 1, format, again);
		buf->len += (size_t)n;
	}
	va_end(again);
	return r;
}

void strbuf_drop_front(struct strbuf *buf, size_t n)
{
	if (n >= buf->len) {
		buf->len = 0;
	} else if (n) {
		memmove(buf->data, buf->data + n, buf->len - n);
		buf->len -= n;
	}
	if (buf->data)
		buf->data[buf->len] = '\0';
}

const char *strbuf_cstr(const struct strbuf *buf)
{
	return buf->data ? buf->data : "";
}

char *strbuf_take(struct strbuf *buf)
{
	char *data;

	if (buf->failed)
		return NULL;
	data = buf->data ? buf->data : strdup("");
	*buf = (struct strbuf){.max = buf->max};
	return data;
}
