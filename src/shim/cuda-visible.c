/* Interprets CUDA_VISIBLE_DEVICES. */
#include "shim/cuda-visible.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char uuid_prefix[] = "GPU-";

static bool is_uuid(const char *entry)
{
	return strncmp(entry, uuid_prefix, strlen(uuid_prefix)) == 0;
}

/* Returns the index of the GPU with this UUID, or of the only GPU whose UUID begins with this text. Returns
 * -1 if no GPU or several GPUs match. */
static int gpu_by_uuid(const struct grant_file *grant, const char *entry)
{
	size_t length = strcspn(entry, ",");
	int found = -1;

	for (unsigned i = 0; i < grant->gpu_count; i++) {
		if (strncmp(grant->gpus[i].uuid, entry, length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

/* The driver reads numbers like strtoul(): "1gpu" is 1. */
static int gpu_by_index(const struct grant_file *grant, const char *entry)
{
	char *end;
	long index = strtol(entry, &end, 10);

	return end > entry && index >= 0 && index < (long)grant->gpu_count ? (int)index : -1;
}

static void add(const struct grant_file *grant, unsigned gpu, char *list, size_t *length)
{
	const char *uuid = grant->gpus[gpu].uuid;
	size_t more = strnlen(uuid, sizeof(grant->gpus[gpu].uuid) - 1);

	if (*length + (*length > 0) + more >= CUDA_VISIBLE_SIZE)
		return;
	if (*length > 0)
		list[(*length)++] = ',';
	memcpy(list + *length, uuid, more);
	*length += more;
	list[*length] = '\0';
}

/* The CUDA C++ Programming Guide 13.0, "CUDA Environment Variables", documents the order, prefixes of UUIDs,
 * and that the first invalid entry ends the list.
 *
 * Not documented, but found and imitated by PyTorch 2.4 (torch/cuda/__init__.py, _parse_visible_devices()):
 * the first entry decides whether all entries are UUIDs. The driver decides what a repeated entry means
 * (PyTorch: no devices), as long as the list has room. */
void cuda_visible_list(const struct grant_file *grant, const char *list, char ret_list[CUDA_VISIBLE_SIZE])
{
	bool uuids = list && is_uuid(list);
	size_t length = 0;

	ret_list[0] = '\0';
	for (unsigned i = 0; !list && i < grant->gpu_count; i++)
		add(grant, i, ret_list, &length);
	while (list && *list) {
		int gpu = uuids == is_uuid(list)
				  ? (uuids ? gpu_by_uuid(grant, list) : gpu_by_index(grant, list))
				  : -1;

		if (gpu < 0)
			return;
		add(grant, (unsigned)gpu, ret_list, &length);
		list += strcspn(list, ",");
		list += *list == ',';
	}
}
