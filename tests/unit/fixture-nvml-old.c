/* A management library as drivers of the 450 series had it, for one GPU whose memory is the host's: no MIG,
 * no memory affinity, no second version of the event wait or of the CUDA version, no field for recovery. */
#include <string.h>

struct event_v1 {
	void *device;
	unsigned long long type, data;
};

static int gpu, set, waits;

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlShutdown(void)
{
	return 0;
}

const char *nvmlErrorString(int result)
{
	return "old";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
	strncpy(text, "450.102.04", size);
	return 0;
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
	*version = 11000;
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = &gpu;
	return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
	*device = &gpu;
	return 0;
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
	*index = 0;
	return 0;
}

int nvmlDeviceGetMinorNumber(void *device, unsigned *minor)
{
	*minor = 7;
	return 0;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned size)
{
	strncpy(text, "GPU-old", size);
	return 0;
}

int nvmlDeviceGetName(void *device, char *text, unsigned size)
{
	strncpy(text, "Old", size);
	return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, void *info)
{
	memset(info, 'x', 68); /* not terminated */
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, void *memory)
{
	return 3; /* not supported */
}

int nvmlDeviceGetComputeMode(void *device, unsigned *mode)
{
	return 3;
}

int nvmlDeviceGetFieldValues(void *device, int count, void *values)
{
	return 3;
}

int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types)
{
	*types = 0x1f;
	return 0;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *in)
{
	return types == 0xa ? 0 : 3;
}

int nvmlEventSetCreate(void **created)
{
	*created = &set;
	return 0;
}

int nvmlEventSetFree(void *freed)
{
	return 0;
}

/* The first wait reports Xid 62, all others time out. */
int nvmlEventSetWait(void *from, struct event_v1 *event, unsigned timeout_ms)
{
	if (waits++ > 0 || timeout_ms != 0)
		return 10;
	*event = (struct event_v1){&gpu, 8, 62};
	return 0;
}
