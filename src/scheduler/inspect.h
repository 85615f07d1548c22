/* inspect.h - the ledger as JSON, for people and tools: the shape of gpushare's /inspect, with more keys. */
#pragma once

struct scheduler;

/* inspect_json() - all nodes with GPUs, or the one named (NULL: all). malloc'ed; NULL when out of memory. */
char *inspect_json(const struct scheduler *scheduler, const char *node);
