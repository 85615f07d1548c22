#include "agent/kubelet/checkpoint.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/container/delivery.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "kube/base64.h"
#include "kube/json.h"
#include "kube/names.h"
#include "node/answered.h"
#include "node/served.h"

/* 9,024 ids with their answers take about 2 MiB. */
#define FILE_MAX ((size_t)16 << 20)
#define ENTRY_IDS_MAX 65536
#define ANSWER_MAX ((size_t)1 << 20) /* in memory */

static size_t entry_count_ids(struct json_object *by_numa)
{
	size_t n = 0;

	json_object_object_foreach (by_numa, node, list) {
		(void)node;
		n += json_count(list);
	}
	return n;
}

static size_t entry_collect_ids(struct json_object *by_numa, char **ids, size_t max)
{
	size_t n = 0;

	json_object_object_foreach (by_numa, node, list) {
		(void)node;
		for (size_t i = 0; i < json_count(list) && n < max; i++) {
			const char *id = json_string(json_object_array_get_idx(list, i));

			if (id)
				ids[n++] = (char *)id;
		}
	}
	return n;
}

static bool is_wanted(const char *resource, const char *wanted)
{
	if (wanted)
		return strcmp(resource, wanted) == 0;
	return strcmp(resource, RESOURCE_GPU_MEM) == 0 || strcmp(resource, RESOURCE_GPU) == 0;
}

/* The name of the agent's CDI device in the answer; NULL: the answer has no device of the
 * agent. */
static const char *answered_device(const V1beta1__ContainerAllocateResponse *answer)
{
	for (size_t i = 0; i < answer->n_cdi_devices; i++) {
		const char *name = delivery_device_name(answer->cdi_devices[i]->name);

		if (name)
			return name;
	}
	return NULL;
}

static const char *answered_gpus(const V1beta1__ContainerAllocateResponse *answer)
{
	for (size_t i = 0; i < answer->n_envs; i++)
		if (strcmp(answer->envs[i]->key, ENV_NVIDIA_VISIBLE) == 0)
			return answer->envs[i]->value;
	return NULL;
}

/* An answer that cannot be read is ignored. */
static int entry_take_answer(
	struct served *served, const char *uid, const char *container, const char *base64)
{
	_cleanup_arena_ struct wire_arena arena;
	const V1beta1__ContainerAllocateResponse *answer = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	char own[ANSWERED_NAME_SIZE];
	const char *device;
	size_t len = 0;

	wire_arena_init(&arena, ANSWER_MAX);
	if (base64 && base64_decode_bytes(base64, &bytes, &len) == 0)
		answer = wire_unpack(&arena, &v1beta1__container_allocate_response__descriptor, bytes, len);
	if (!answer)
		return 0;
	device = answered_device(answer);
	if (!device)
		return served_set_answer(served, uid, container, NULL, answered_gpus(answer));
	if (strlen(device) >= ANSWERED_NAME_SIZE ||
		strcmp(device, answered_own_name(uid, container, own)) == 0)
		return 0;
	return served_set_answer(served, uid, container, device, NULL);
}

static int entry_parse(struct json_object *entry, const char *wanted, struct served *served)
{
	const char *uid = json_member_string(entry, "PodUID");
	const char *container = json_member_string(entry, "ContainerName");
	const char *resource = json_member_string(entry, "ResourceName");
	struct json_object *by_numa = json_member(entry, "DeviceIDs");
	_cleanup_free_ char **ids = NULL;
	size_t n;

	if (!uid || !container || !resource || !is_wanted(resource, wanted) ||
		!json_object_is_type(by_numa, json_type_object))
		return 0;
	n = entry_count_ids(by_numa);
	if (n > ENTRY_IDS_MAX)
		return 0;
	ids = calloc(n ? n : 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	n = entry_collect_ids(by_numa, ids, n);
	if (served_add(served, uid, container, ids, n) < 0)
		return -ENOMEM;
	return entry_take_answer(served, uid, container, json_member_string(entry, "AllocResp"));
}

int checkpoint_parse(
	const char *text, size_t len, const char *resource, struct served *served, struct error *err)
{
	_cleanup_json_ struct json_object *root = NULL;
	struct json_object *data, *entries;
	int r = json_parse(text, len, &root, err);

	if (r < 0)
		return r;
	data = json_member(root, "Data");
	entries = json_member(data, "PodDeviceEntries");
	if (!entries && json_object_is_type(data, json_type_object))
		return 0; /* null: no devices were ever given */
	if (!json_object_is_type(entries, json_type_array))
		return error_set(err, EINVAL, "there is no list Data.PodDeviceEntries in it");
	for (size_t i = 0; i < json_object_array_length(entries); i++) {
		r = entry_parse(json_object_array_get_idx(entries, i), resource, served);
		if (r < 0)
			return error_set(err, -r, "out of memory");
	}
	return 0;
}

int checkpoint_load(const char *path, const char *resource, struct served *served, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	struct served fresh;
	size_t len = 0;
	int r = fs_read(path, FILE_MAX, &text, &len);

	if (r == -ENOENT) {
		served_release(served);
		return 0;
	}
	if (r < 0)
		return error_set(err, -r, "%s: %s", path, strerror(-r));
	served_init(&fresh);
	r = checkpoint_parse(text, len, resource, &fresh, err);
	if (r < 0)
		error_prefix(err, "%s", path);
	else
		served_move(&fresh, served);
	served_release(&fresh);
	return r;
}

int checkpoint_look(struct checkpoint_cache *cache, const char *path, struct error *err)
{
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	if (cache->known && st.st_ino == cache->ino && st.st_size == cache->size &&
		st.st_mtim.tv_sec == cache->written.tv_sec && st.st_mtim.tv_nsec == cache->written.tv_nsec)
		return 0;
	r = checkpoint_load(path, CHECKPOINT_OF_GPUS, &cache->served, err);
	cache->known = r == 0;
	cache->ino = st.st_ino;
	cache->size = st.st_size;
	cache->written = st.st_mtim;
	return r;
}
