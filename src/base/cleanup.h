/* cleanup.h - scope-bound ownership. When the scope of a variable declared with _cleanup_(f) ends, f gets the
 * variable; TAKE_PTR and TAKE_FD move the value out. Every destructor accepts NULL (or -1). */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

static inline void free_ptr(void *p)
{
	free(*(void **)p);
}

static inline void close_ptr(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void fclose_ptr(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_free_ _cleanup_(free_ptr)
#define _cleanup_close_ _cleanup_(close_ptr)
#define _cleanup_fclose_ _cleanup_(fclose_ptr)

#define TAKE_PTR(p)                                                                                          \
	({                                                                                                   \
		__typeof__(p) *taken_from_ = &(p);                                                           \
		__typeof__(p) taken_ = *taken_from_;                                                         \
		*taken_from_ = NULL;                                                                         \
		taken_;                                                                                      \
	})

static inline int TAKE_FD(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
