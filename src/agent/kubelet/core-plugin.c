#include "agent/kubelet/core-plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container/leftovers.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/kubelet/calls.h"
#include "agent/kubelet/checkpoint.h"
#include "agent/kubelet/device-list.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/registrar.h"
#include "agent/kubelet/relay.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/names.h"
#include "model/request.h"
#include "node/ids.h"
#include "node/served.h"

#define ARENA_MAX ((size_t)4 << 20)
#define CONTAINERS_MAX 64 /* in one call; the kubelet asks for one */

struct core_plugin {
	struct kubelet *kubelet;
	struct calls *calls;
	struct device_list list;
	bool begun;
	/* Which ids are in use: the kubelet's own record, read again when it has changed, and later answers.
	 * Only two things depend on it: names, and which free ids stand for an unhealthy GPU. */
	struct served served;
	struct stat seen;	/* the file that it was read from */
	struct table spent;	/* as in the registry */
	unsigned int n_answers; /* names those that have no pod yet */
};

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The kubelet writes its checkpoint under another name and renames it. False: the old content stays. */
static bool read_record(struct core_plugin *plugin)
{
	const char *path = plugin->kubelet->deps.checkpoint;
	struct stat now = {0};
	struct error err = {""};

	if (stat(path, &now) == 0 && same_file(&now, &plugin->seen))
		return true;
	if (checkpoint_load(path, RESOURCE_GPU_CORE, &plugin->served, &err) < 0) {
		log_warning("%s", err.text);
		return false;
	}
	plugin->seen = now;
	return true;
}

static uint32_t count_ids(const struct kubelet *kubelet)
{
	return (uint32_t)kubelet->deps.node->inventory.n_gpus * CORE_PER_GPU;
}

static int build_ids(struct kubelet *kubelet, const struct inventory *inventory, struct device_ids *ret_ids)
{
	struct core_plugin *plugin = kubelet->core_plugin;

	read_record(plugin);
	return ids_build(
		IDS_OF_CORE, inventory, &kubelet->deps.node->pods, &plugin->served, &plugin->spent, ret_ids);
}

static const struct device_list_ops LIST_OPS = {.of = IDS_OF_CORE, .count = count_ids, .build = build_ids};

/* ---- the calls ---- */

static void handle_options(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	/* All options are false, which is an empty message. */
	kubelet_call_reply(call, NULL, 0);
}

static void handle_list_and_watch(
	void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	device_list_open(&((struct core_plugin *)userdata)->list, call);
}

static void list_and_watch_closed(void *userdata, struct kubelet_call *call)
{
	struct core_plugin *plugin = userdata;

	if (device_list_closed(&plugin->list, call) && plugin->kubelet->core_registrar)
		registrar_unwatched(plugin->kubelet->core_registrar);
}

static void handle_allocate(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	struct core_plugin *plugin = userdata;
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
	V1beta1__ContainerAllocateResponse nothing = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
	V1beta1__ContainerAllocateResponse *containers[CONTAINERS_MAX];
	const V1beta1__AllocateRequest *request;
	_cleanup_arena_ struct wire_arena arena;
	_cleanup_free_ uint8_t *packed = NULL;
	size_t packed_len = 0;

	wire_arena_init(&arena, ARENA_MAX);
	request = wire_unpack(&arena, &v1beta1__allocate_request__descriptor, message, len);
	if (!request || !request->n_container_requests || request->n_container_requests > CONTAINERS_MAX) {
		kubelet_call_fail(call, GRPC_INVALID_ARGUMENT, "not an AllocateRequest for a container");
		return;
	}
	/* There must be one answer for each, or the kubelet fails the pod ("no containers return in
	 * allocation response", manager.go at 1.36.3). */
	for (size_t i = 0; i < request->n_container_requests; i++) {
		char name[16];

		/* The checkpoint will say to which pods they belong. */
		snprintf(name, sizeof(name), "%u", plugin->n_answers++);
		if (served_add(&plugin->served, "", name, request->container_requests[i]->devices_ids,
			    request->container_requests[i]->n_devices_ids) < 0)
			log_warning("%s: out of memory", RESOURCE_GPU_CORE);
		containers[i] = &nothing;
	}
	response.container_responses = containers;
	response.n_container_responses = request->n_container_requests;
	packed = wire_pack(&response.base, &packed_len);
	if (packed)
		kubelet_call_reply(call, packed, packed_len);
	else
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

/* The options do not ask for these calls; the answer expresses no preference. */
static void handle_nothing(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	kubelet_call_reply(call, NULL, 0);
}

static void on_listening(void *userdata, const char *text)
{
	struct core_plugin *plugin = userdata;

	if (plugin->kubelet->core_registrar)
		registrar_listening(plugin->kubelet->core_registrar, text);
}

static const struct calls_ops OPS = {
	.methods =
		{
			[RELAY_OPTIONS] = {handle_options, NULL},
			[RELAY_LIST_AND_WATCH] = {handle_list_and_watch, list_and_watch_closed},
			[RELAY_PREFERRED] = {handle_nothing, NULL},
			[RELAY_ALLOCATE] = {handle_allocate, NULL},
			[RELAY_PRESTART] = {handle_nothing, NULL},
		},
	.listening = on_listening,
};

int core_plugin_new(struct kubelet *kubelet, struct core_plugin **ret_plugin)
{
	struct core_plugin *plugin = calloc(1, sizeof(*plugin));
	int r;

	if (!plugin) {
		close(TAKE_FD(&kubelet->deps.relays->fds[PLUGIN_OF_CORE]));
		return -ENOMEM;
	}
	plugin->kubelet = kubelet;
	served_init(&plugin->served);
	table_init(&plugin->spent);
	device_list_init(&plugin->list, kubelet, &LIST_OPS);
	r = calls_new(kubelet->deps.loop, TAKE_FD(&kubelet->deps.relays->fds[PLUGIN_OF_CORE]), &OPS, plugin,
		&plugin->calls);
	if (r < 0)
		core_plugin_free(plugin);
	else
		*ret_plugin = plugin;
	return r;
}

void core_plugin_free(struct core_plugin *plugin)
{
	if (!plugin)
		return;
	calls_free(plugin->calls);
	device_list_release(&plugin->list);
	served_release(&plugin->served);
	table_release(&plugin->spent);
	free(plugin);
}

void core_plugin_begin(struct core_plugin *plugin)
{
	if (plugin->begun)
		return;
	plugin->begun = true;
	calls_begin(plugin->calls);
}

bool core_plugin_watched(const struct core_plugin *plugin)
{
	return device_list_watched(&plugin->list);
}

void core_plugin_update(struct core_plugin *plugin)
{
	device_list_update(&plugin->list);
}

/* ---- the registration ---- */

static void listen_for_kubelet(struct kubelet *kubelet)
{
	calls_listen(kubelet->core_plugin->calls);
}

static bool is_watched(const struct kubelet *kubelet)
{
	return core_plugin_watched(kubelet->core_plugin);
}

/* As for gpu-mem: ids.h. */
static void kubelet_started(struct kubelet *kubelet)
{
	struct core_plugin *plugin = kubelet->core_plugin;

	table_release(&plugin->spent);
	plugin->seen = (struct stat){0};
	if (!read_record(plugin) || !kubelet->deps.node->pods_listed)
		return;
	if (spent_find(&plugin->served, &kubelet->deps.node->pods, leftovers_may_live,
		    kubelet->deps.leftovers, &plugin->spent) < 0)
		table_release(&plugin->spent);
}

const struct registration core_registration = {
	.resource = RESOURCE_GPU_CORE,
	.endpoint = CORE_PLUGIN_ENDPOINT,
	.decides = false,
	.listen = listen_for_kubelet,
	.watched = is_watched,
	.kubelet_started = kubelet_started,
};
