#include "agent/kubelet/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/leftovers.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/kubelet/allocate.h"
#include "agent/kubelet/calls.h"
#include "agent/kubelet/checkpoint.h"
#include "agent/kubelet/device-list.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/prestart.h"
#include "agent/kubelet/registrar.h"
#include "agent/kubelet/relay.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/names.h"
#include "node/ids.h"

struct plugin {
	struct kubelet *kubelet;
	bool whole;
	struct calls *calls;
	struct pending_calls allocate, preferred;
	struct device_list list;
	bool begun;
};

static void handle_options(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	_cleanup_free_ uint8_t *packed = NULL;
	size_t packed_len = 0;

	options.pre_start_required = true;
	options.get_preferred_allocation_available = true;
	packed = wire_pack(&options.base, &packed_len);
	if (packed)
		kubelet_call_reply(call, packed, packed_len);
	else
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

static int build_units(struct kubelet *kubelet, const struct inventory *inventory, struct device_ids *ret_ids)
{
	return ids_build(IDS_OF_UNITS, inventory, &kubelet->deps.node->pods, &kubelet->deps.node->served,
		&kubelet->deps.node->spent, ret_ids);
}

static int build_gpus(struct kubelet *kubelet, const struct inventory *inventory, struct device_ids *ret_ids)
{
	return ids_build(IDS_OF_GPUS, inventory, &kubelet->deps.node->pods, &kubelet->deps.node->served,
		&kubelet->deps.node->spent, ret_ids);
}

static uint32_t count_units(const struct kubelet *kubelet)
{
	return inventory_units(&kubelet->deps.node->inventory);
}

static uint32_t count_gpus(const struct kubelet *kubelet)
{
	return (uint32_t)kubelet->deps.node->inventory.n_gpus;
}

static const struct device_list_ops UNITS_OPS = {
	.of = IDS_OF_UNITS, .count = count_units, .build = build_units};
static const struct device_list_ops GPUS_OPS = {.of = IDS_OF_GPUS, .count = count_gpus, .build = build_gpus};

static struct registrar *registrar_of(const struct plugin *plugin)
{
	return plugin->whole ? plugin->kubelet->gpu_registrar : plugin->kubelet->registrar;
}

static void handle_list_and_watch(
	void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	device_list_open(&((struct plugin *)userdata)->list, call);
}

static void list_and_watch_closed(void *userdata, struct kubelet_call *call)
{
	struct plugin *plugin = userdata;

	if (device_list_closed(&plugin->list, call) && registrar_of(plugin))
		registrar_unwatched(registrar_of(plugin));
}

static void handle_allocate(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	allocate_handle(&((struct plugin *)userdata)->allocate, call, message, len);
}

static void allocate_closed_call(void *userdata, struct kubelet_call *call)
{
	allocate_closed(&((struct plugin *)userdata)->allocate, call);
}

static void handle_preferred(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	preferred_handle(&((struct plugin *)userdata)->preferred, call, message, len);
}

static void preferred_closed_call(void *userdata, struct kubelet_call *call)
{
	preferred_closed(&((struct plugin *)userdata)->preferred, call);
}

static void handle_prestart(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	prestart_handle(((struct plugin *)userdata)->kubelet, call, message, len);
}

static void prestart_closed_call(void *userdata, struct kubelet_call *call)
{
	prestart_closed(((struct plugin *)userdata)->kubelet, call);
}

static void on_listening(void *userdata, const char *text)
{
	struct plugin *plugin = userdata;

	if (registrar_of(plugin))
		registrar_listening(registrar_of(plugin), text);
}

static const struct calls_ops OPS = {
	.methods =
		{
			[RELAY_OPTIONS] = {handle_options, NULL},
			[RELAY_LIST_AND_WATCH] = {handle_list_and_watch, list_and_watch_closed},
			[RELAY_PREFERRED] = {handle_preferred, preferred_closed_call},
			[RELAY_ALLOCATE] = {handle_allocate, allocate_closed_call},
			[RELAY_PRESTART] = {handle_prestart, prestart_closed_call},
		},
	.listening = on_listening,
};

int plugin_new(struct kubelet *kubelet, bool whole, struct plugin **ret_plugin)
{
	struct plugin *plugin = calloc(1, sizeof(*plugin));
	int *relay = &kubelet->deps.relays->fds[whole ? PLUGIN_OF_GPU : PLUGIN_OF_MEM], r;

	if (!plugin) {
		close(TAKE_FD(relay));
		return -ENOMEM;
	}
	plugin->kubelet = kubelet;
	plugin->whole = whole;
	pending_calls_init(&plugin->allocate, kubelet, whole);
	pending_calls_init(&plugin->preferred, kubelet, whole);
	device_list_init(&plugin->list, kubelet, whole ? &GPUS_OPS : &UNITS_OPS);
	r = calls_new(kubelet->deps.loop, TAKE_FD(relay), &OPS, plugin, &plugin->calls);
	if (r < 0)
		plugin_free(plugin);
	else
		*ret_plugin = plugin;
	return r;
}

void plugin_free(struct plugin *plugin)
{
	if (!plugin)
		return;
	calls_free(plugin->calls);
	allocate_end(&plugin->allocate);
	preferred_end(&plugin->preferred);
	device_list_release(&plugin->list);
	free(plugin);
}

void plugin_begin(struct plugin *plugin)
{
	if (plugin->begun)
		return;
	plugin->begun = true;
	calls_begin(plugin->calls);
	calls_ready(plugin->calls);
}

bool plugin_watched(const struct plugin *plugin)
{
	return device_list_watched(&plugin->list);
}

void plugin_update(struct plugin *plugin)
{
	device_list_update(&plugin->list);
}

/* ---- the registration ---- */

static void listen_for_kubelet(struct kubelet *kubelet)
{
	calls_listen(kubelet->plugin->calls);
}

static void listen_for_kubelet_gpu(struct kubelet *kubelet)
{
	calls_listen(kubelet->gpu_plugin->calls);
}

static bool is_watched(const struct kubelet *kubelet)
{
	return plugin_watched(kubelet->plugin);
}

static bool is_gpu_watched(const struct kubelet *kubelet)
{
	return plugin_watched(kubelet->gpu_plugin);
}

/* A kubelet that has just started knows what is in its checkpoint, which it reads before it makes its socket;
 * it has forgotten everything else. This comes before Register, because Allocate may follow at once. */
static void kubelet_started(struct kubelet *kubelet)
{
	struct error err = {""};

	if (checkpoint_load(kubelet->deps.checkpoint, CHECKPOINT_OF_GPUS, &kubelet->deps.node->served, &err) <
		0) {
		log_warning("%s; going on with our own record", err.text);
	} else {
		kubelet_recall_who_waits(kubelet);
		if (answers_settle(kubelet, &err) < 0)
			log_warning("%s", err.text);
	}
	turn_list_begin(kubelet);
	table_release(&kubelet->deps.node->spent);
	if (!kubelet->deps.node->pods_listed)
		return;
	if (spent_find(&kubelet->deps.node->served, &kubelet->deps.node->pods, leftovers_may_live,
		    kubelet->deps.leftovers, &kubelet->deps.node->spent) < 0)
		table_release(&kubelet->deps.node->spent);
	if (kubelet->deps.node->spent.count)
		log_info("the kubelet still holds %zu units of pods that are over: they get other names",
			kubelet->deps.node->spent.count);
}

const struct registration plugin_registration = {
	.resource = RESOURCE_GPU_MEM,
	.endpoint = PLUGIN_ENDPOINT,
	.decides = true,
	.listen = listen_for_kubelet,
	.watched = is_watched,
	.kubelet_started = kubelet_started,
};

const struct registration gpu_registration = {
	.resource = RESOURCE_GPU,
	.endpoint = GPU_PLUGIN_ENDPOINT,
	.decides = true,
	.listen = listen_for_kubelet_gpu,
	.watched = is_gpu_watched,
	.kubelet_started = kubelet_started,
};
