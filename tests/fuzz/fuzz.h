/* fuzz.h - what a harness gives: one function for libFuzzer, AFL and our own driver.c alike. It must accept
 * any bytes, leave nothing behind, and abort when a promise of a header is broken. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* For driver.c: mutations of one ordinary run, and words worth inserting, up to a NULL. */
extern const unsigned int fuzz_rounds;
extern const char *const fuzz_words[];

#define MUST(condition)                                                                                      \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			dprintf(STDERR_FILENO, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);       \
			abort();                                                                             \
		}                                                                                            \
	} while (0)

/* For a harness that has its own clock: libFuzzer's alarm, which may come at any time, needs the real one. A
 * signal is blocked while its handler runs. */
static inline bool fuzz_in_alarm(void)
{
	sigset_t blocked;

	return sigprocmask(SIG_BLOCK, NULL, &blocked) == 0 && sigismember(&blocked, SIGALRM);
}

/* Where a harness keeps files: in memory where that can be had. */
static inline const char *fuzz_folder(void)
{
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

/* A copy of exactly its size and a NUL, so that the sanitizers see one byte too far. The caller frees. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	MUST(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* What a request to the API server may look like, whatever others said of names. */
static inline void fuzz_check_path(const char *path)
{
	size_t len = strcspn(path, "?");

	MUST(strncmp(path, "/api", 4) == 0 && len < 700 && !strpbrk(path, " \r\n#"));
	for (size_t i = 0; i < len; i++)
		MUST(path[i] != '%' && !(path[i] == '/' && (path[i + 1] == '/' || path[i + 1] == '.')));
}
