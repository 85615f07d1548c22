/* kubectl-of-input.h - everything that commands of `ration` ask kubectl, answered from an input, and nothing
 * executed. By the linker these functions come before those of cli/kubectl.c, cli/forward.c and
 * cli/run-program.c (meson.build). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* kubectl_answers() - from now on calls are answered by these pieces, each of which ends with a NUL. The
 * first byte of a piece says how: o standard output and status 0; e a complaint and status 1; f kubectl
 * cannot be run. When there is no piece left, there are no pods and one node, and nothing else exists.
 * Waiting takes no time. */
void kubectl_answers(const char *text, size_t size);

/* kubectl_calls() - so many so far. */
size_t kubectl_calls(void);
