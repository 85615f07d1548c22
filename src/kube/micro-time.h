/* micro-time.h - Kubernetes' MicroTime: RFC 3339 in UTC with microseconds. */
#pragma once

#include <stdint.h>

#define MICRO_TIME_SIZE 40

/* micro_time_text() - the text for realtime_ns(), nanoseconds since 1970. */
const char *micro_time_text(int64_t ns, char buf[MICRO_TIME_SIZE]);
