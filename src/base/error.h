/* error.h - a sentence for the person who has to act, in addition to the negative errno that code acts on. */
#pragma once

#include <stdarg.h>

struct error {
	char text[512];
};

/* error_set() - writes the sentence. err may be NULL. Returns -errnum, so that `return error_set(err, EINVAL,
 * ...)` is one statement. errnum is a positive errno. */
int error_set(struct error *err, int errnum, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* error_prefix() - puts context before the sentence: "<prefix>: <sentence>". */
void error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
