#include "kube/micro-time.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"

const char *micro_time_text(int64_t ns, char buf[MICRO_TIME_SIZE])
{
	time_t seconds = (time_t)(ns / NS_PER_S);
	size_t len;
	struct tm tm;

	gmtime_r(&seconds, &tm);
	len = strftime(buf, MICRO_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + len, MICRO_TIME_SIZE - len, ".%06dZ", (int)(ns % NS_PER_S / 1000));
	return buf;
}
