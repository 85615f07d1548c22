/* strbuf.h - a growing string with a limit that is fixed at creation, so that no peer can exhaust our memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
	char *data;  /* NUL-terminated once anything was added; NULL if never used */
	size_t len;  /* without the NUL */
	size_t size; /* allocated */
	size_t max;  /* len never exceeds this */
	int failed;  /* first failure (-ENOMEM, -EMSGSIZE); later additions do nothing */
};

void strbuf_init(struct strbuf *buf, size_t max);
void strbuf_release(struct strbuf *buf);
#define _cleanup_strbuf_ _cleanup_(strbuf_release)

/* strbuf_clear() - removes the content and any failure, and keeps the memory. */
void strbuf_clear(struct strbuf *buf);

/* All additions return 0 or the (sticky) failure, and add either everything or nothing. */
int strbuf_add(struct strbuf *buf, const void *data, size_t len);
int strbuf_adds(struct strbuf *buf, const char *text);
int strbuf_addf(struct strbuf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* strbuf_drop_front() - removes the first n bytes. */
void strbuf_drop_front(struct strbuf *buf, size_t n);

/* strbuf_cstr() - the content as a C string; "" if nothing was added. Valid until the next change. */
const char *strbuf_cstr(const struct strbuf *buf);

/* strbuf_take() - gives the malloc'ed string to the caller; the buffer is empty afterwards. NULL on failure.
 */
char *strbuf_take(struct strbuf *buf);
