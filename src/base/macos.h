/* macos.h - functions that the cluster commands use and that the C library of macOS lacks.
 * deploy/cross/build-macos includes it before every file. */
#pragma once

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#undef SOCK_CLOEXEC
#define SOCK_CLOEXEC 0 /* a socket opened with it is closed before any program is started */
#undef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* SO_NOSIGPIPE is set instead */
#undef GRND_NONBLOCK
#define GRND_NONBLOCK 0

/* Defined under our own names, because newer versions of macOS have some of them and these programs run on
 * older versions too. */

static inline int ration_pipe2(int fds[2], int flags)
{
	if (pipe(fds) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (flags & O_CLOEXEC)
			fcntl(fds[i], F_SETFD, FD_CLOEXEC);
	return 0;
}

#define pipe2 ration_pipe2

static inline ssize_t ration_getrandom(void *data, size_t size, unsigned flags)
{
	(void)flags;
	return getentropy(data, size) < 0 ? -1 : (ssize_t)size;
}

#define getrandom ration_getrandom

static inline char *ration_strchrnul(const char *text, int letter)
{
	char *found = strchr(text, letter);

	return found ? found : (char *)text + strlen(text);
}
#define strchrnul ration_strchrnul

static inline void *ration_reallocarray(void *old, size_t n, size_t size)
{
	if (size && n > SIZE_MAX / size) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, n * size);
}
#define reallocarray ration_reallocarray

/* Numbers inside names are compared by value: gpu-9 is before gpu-10. */
static inline int ration_strverscmp(const char *a, const char *b)
{
	while (*a && *b) {
		size_t a_len, b_len;
		int order;

		while (a[0] == '0' && isdigit((unsigned char)a[1]))
			a++;
		while (b[0] == '0' && isdigit((unsigned char)b[1]))
			b++;
		a_len = strspn(a, "0123456789");
		b_len = strspn(b, "0123456789");
		if (a_len != b_len)
			return a_len && b_len ? (a_len < b_len ? -1 : 1) : strcmp(a, b);
		order = strncmp(a, b, a_len ? a_len : 1);
		if (order)
			return order;
		a += a_len ? a_len : 1;
		b += b_len ? b_len : 1;
	}
	return strcmp(a, b);
}
#define strverscmp ration_strverscmp

/* qsort_r() of macOS takes its arguments in another order, and so does its comparison function. */
struct ration_order {
	int (*compare)(const void *a, const void *b, void *userdata);
	void *userdata;
};

static inline int ration_compare(void *order, const void *a, const void *b)
{
	struct ration_order *by = order;

	return by->compare(a, b, by->userdata);
}

static inline void ration_qsort_r(void *base, size_t n, size_t size,
	int (*compare)(const void *a, const void *b, void *userdata), void *userdata)
{
	struct ration_order order = {compare, userdata};

	qsort_r(base, n, size, &order, ration_compare);
}
#define qsort_r ration_qsort_r
