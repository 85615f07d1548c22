/* held.h - the text of the node annotation ration.dev/held:
 *
 *   {"at":"2026-05-04T03:02:01.000000Z",
 *    "pods":[{"uid":"..","namespace":"..","name":"..","cards":{"GPU-..":{"units":3,"core":0}}}],
 *    "ended":["uid", ..]}
 */
#pragma once

#include <stddef.h>

#include "model/held.h"

struct error;

/* held_from_json() - checks everything: -EINVAL with a sentence; unknown keys are ignored. */
int held_from_json(const char *text, struct held *ret_held, struct error *err);

/* held_to_json() - writes the same text in at most max bytes. Pods that do not fit are left out, then uids of
 * `ended`. The caller frees; NULL when out of memory. *ret_cut: how many pods are missing. */
char *held_to_json(const struct held *held, size_t max, size_t *ret_cut);
