#include "grant/grant.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "grant/files.h"

static uint64_t fnv1a(uint64_t hash, const void *from, const void *to)
{
	for (const unsigned char *at = from; at < (const unsigned char *)to; at++)
		hash = (hash ^ *at) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t checksum(const struct grant_file *grant)
{
	uint64_t hash = fnv1a(UINT64_C(0xcbf29ce484222325), grant, &grant->checksum);

	return fnv1a(hash, &grant->gpu_count, grant->live);
}

static bool is_text(const char *text, size_t size)
{
	return text[0] != '\0' && memchr(text, '\0', size) != NULL;
}

const char *grant_file_verify(const struct grant_file *grant, size_t bytes)
{
	if (bytes < sizeof(*grant))
		return "the grant is truncated";
	if (grant->magic != GRANT_FILE_MAGIC)
		return "the file is not a grant";
	switch (layout_fit(grant->version, grant->readable_from, GRANT_FILE_VERSION, GRANT_FILE_OLDEST)) {
	case LAYOUT_TOO_NEW:
		return "the grant was written by a newer version of ration, which this one cannot read";
	case LAYOUT_TOO_OLD:
		return "the grant was written by a version of ration that is too old for this one";
	case LAYOUT_FITS:
		break;
	}
	if (grant->size != sizeof(*grant))
		return "the grant has the wrong size";
	if (grant->checksum != checksum(grant))
		return "the grant is damaged: its checksum is wrong";
	if (!is_text(grant->cuda_library, sizeof(grant->cuda_library)) || grant->cuda_library[0] != '/' ||
		!memchr(grant->nvml_library, '\0', sizeof(grant->nvml_library)) ||
		!memchr(grant->container, '\0', sizeof(grant->container)))
		return "the grant does not name the driver's library";
	if (grant->gpu_count == 0 || grant->gpu_count > GRANT_FILE_GPUS_MAX)
		return "the grant names no GPU, or more GPUs than it can hold";
	for (unsigned i = 0; i < grant->gpu_count; i++) {
		const struct grant_file_gpu *gpu = &grant->gpus[i];

		if (!is_text(gpu->uuid, sizeof(gpu->uuid)) ||
			!memchr(gpu->pci_bus_id, '\0', sizeof(gpu->pci_bus_id)))
			return "the grant has a GPU without a name";
		if (gpu->limit_bytes == 0 || grant_file_limit_bytes(grant, i) == 0)
			return "the grant has a GPU without memory";
	}
	return NULL;
}

int grant_file_write(const char *path, struct grant_file *grant, const char **ret_why)
{
	const char *why;
	int r;

	grant->magic = GRANT_FILE_MAGIC;
	grant->version = GRANT_FILE_VERSION;
	grant->size = sizeof(*grant);
	grant->readable_from = GRANT_FILE_READABLE_FROM;
	for (unsigned i = 0; i < grant->gpu_count && i < GRANT_FILE_GPUS_MAX; i++) {
		atomic_store(&grant->live[i].limit_bytes, grant->gpus[i].limit_bytes);
		atomic_store(&grant->live[i].largest_limit_bytes, grant->gpus[i].limit_bytes);
	}
	grant->checksum = checksum(grant);
	why = grant_file_verify(grant, sizeof(*grant));
	if (why) {
		*ret_why = why;
		return -EINVAL;
	}
	r = files_write(path, 0644, grant, sizeof(*grant), sizeof(*grant));
	if (r < 0)
		*ret_why = "the grant cannot be written";
	return r;
}

int grant_file_set_limit(struct grant_file *grant, unsigned gpu, uint64_t bytes)
{
	if (gpu >= grant->gpu_count || gpu >= GRANT_FILE_GPUS_MAX || bytes == 0)
		return -EINVAL;
	/* The largest limit is raised first, so that a reader that sees the new limit finds it allowed. */
	if (bytes > atomic_load(&grant->live[gpu].largest_limit_bytes))
		atomic_store(&grant->live[gpu].largest_limit_bytes, bytes);
	atomic_store(&grant->live[gpu].limit_bytes, bytes);
	return 0;
}

void grant_file_set_power(
	struct grant_file *grant, unsigned gpu, uint64_t share, uint64_t rate, uint64_t policy)
{
	struct grant_file_live *live = &grant->live[gpu];

	if (share)
		atomic_store(&live->core_rate, rate);
	atomic_store(&live->core_share, share);
	if (!share)
		atomic_store(&live->core_rate, rate);
	atomic_store(&live->core_policy, policy);
}

static const char *explain(int r)
{
	switch (r) {
	case -ENOENT:
	case -ENOTDIR:
		return "there is no grant";
	case -EACCES:
	case -EPERM:
		return "the grant cannot be read: permission denied";
	case -EBADMSG:
		return "the grant is truncated";
	default:
		return "the grant cannot be read";
	}
}

static int map_verified(const char *path, int writable, struct grant_file **ret_grant, const char **ret_why)
{
	const char *why;
	void *map;
	int r = files_map(path, sizeof(struct grant_file), writable, &map);

	if (r < 0) {
		*ret_why = explain(r);
		return r;
	}
	why = grant_file_verify(map, sizeof(struct grant_file));
	if (why) {
		munmap(map, sizeof(struct grant_file));
		*ret_why = why;
		return -EBADMSG;
	}
	*ret_grant = map;
	return 0;
}

int grant_file_map(const char *path, const struct grant_file **ret_grant, const char **ret_why)
{
	struct grant_file *grant;
	int r = map_verified(path, 0, &grant, ret_why);

	if (r == 0)
		*ret_grant = grant;
	return r;
}

int grant_file_map_keeper(const char *path, struct grant_file **ret_grant, const char **ret_why)
{
	return map_verified(path, 1, ret_grant, ret_why);
}

void grant_file_unmap(const struct grant_file *grant)
{
	if (grant)
		munmap((void *)grant, sizeof(*grant));
}
