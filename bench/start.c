/* bench-start - a program that never calls CUDA: starts, tells what memory it has, ends. Under LD_PRELOAD,
 * what a library costs those who do not use it. */
#include <stdio.h>
#include <string.h>

int main(void)
{
	FILE *rollup = fopen("/proc/self/smaps_rollup", "re");
	unsigned long value, resident = 0, own = 0;
	char line[200];

	while (rollup && fgets(line, sizeof(line), rollup)) {
		if (sscanf(line, "Rss: %lu", &value) == 1)
			resident = value;
		if (sscanf(line, "Private_Dirty: %lu", &value) == 1)
			own = value;
	}
	printf("%lu %lu\n", resident, own);
	return 0;
}
