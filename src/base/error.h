/* error.h - a sentence for the person who has to act, beside the negative errno that code acts on. */
#pragma once

#include <stdarg.h>

struct error {
	char text[512];
};

/* error_set() - write the sentence. err may be NULL. Returns -errnum, so that `return error_set(err, EINVAL,
 * ...)` reads as one thing. errnum is a positive errno. */
int error_set(struct error *err, int errnum, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* error_prefix() - put context in front: "<prefix>: <what was there>". */
void error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
