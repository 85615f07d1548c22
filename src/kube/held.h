/* held.h - the text of the node annotation ration.dev/held:
 *
 *   {"at":"2026-05-04T03:02:01.000000Z",
 *    "pods":[{"uid":"..","namespace":"..","name":"..","cards":{"GPU-..":{"units":3,"core":0}}}],
 *    "ended":["uid", ..]}
 */
#pragma once

#include "model/held.h"

struct error;

/* held_from_json() - everything is checked: -EINVAL with a sentence; unknown keys are ignored. */
int held_from_json(const char *text, struct held *ret_held, struct error *err);
