/* With fixture-nvml-old.c: a management library as nvml.h 12.2.81 and 12.2.128 describe it, of drivers before
 * 535.104. Entries of its process lists have 32 bytes (the last 8 say how much of the memory is protected),
 * but only in the functions that end with _v3; nvml.h 12.1.105 and 12.2.140 have 24. It has
 * nvmlDeviceGetConfComputeMemSizeInfo, which is older in neither, and lacks
 * nvmlDeviceGetRunningProcessDetailList, which 12.2.140 brought. NVML_WIDE_PROCESSES says how many processes
 * there are: number i has the pid 1000 + i and i + 1 MiB. */
#include <stdlib.h>
#include <string.h>

struct entry {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
	unsigned long long protected_bytes;
};

_Static_assert(sizeof(struct entry) == 32, "nvmlProcessInfo_st of nvml.h 12.2.81");

/* A call that the compiler does not know, so that a preloaded address sanitizer sees it. */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

int nvmlDeviceGetConfComputeMemSizeInfo(void *device, void *info)
{
	return 3;
}

static int list(unsigned *count, char *out, size_t size)
{
	const char *said = getenv("NVML_WIDE_PROCESSES");
	unsigned all = said ? (unsigned)atoi(said) : 0, room = *count;

	*count = all;
	if (room < all)
		return 7; /* too little room */
	for (unsigned i = 0; i < all; i++) {
		struct entry entry = {1000 + i, (i + 1ull) << 20, ~0u, ~0u, ~0ull};

		copy(out + i * size, &entry, size);
	}
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
	return list(count, infos, 32);
}

int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, void *infos)
{
	return list(count, infos, 24);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
	return list(count, infos, 32);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
	return list(count, infos, 32);
}
