#include "agent/plugin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/allocate.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/ids.h"
#include "agent/preferred.h"
#include "agent/prestart.h"
#include "agent/registrar.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "net/grpc-server.h"

#define STREAMS_MAX 16

struct plugin {
	struct agent *agent;
	struct grpc_server *server;
	struct allocator *allocator;
	struct preferrer *preferrer;
	struct grpc_call *streams[STREAMS_MAX];
	size_t n_streams;
	uint8_t *message; /* what the streams were last told */
	size_t message_len;
	bool message_serves; /* when it was made: */
	uint32_t message_units;
	bool message_healthy;
};

static void handle_options(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	_cleanup_free_ uint8_t *packed = NULL;
	size_t packed_len = 0;

	options.pre_start_required = true;
	options.get_preferred_allocation_available = true;
	packed = wire_pack(&options.base, &packed_len);
	if (packed)
		grpc_call_reply(call, packed, packed_len);
	else
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

static uint8_t *pack_devices(const struct device_ids *ids, size_t *ret_len)
{
	_cleanup_free_ V1beta1__Device *devices = calloc(ids->n + 1, sizeof(*devices));
	_cleanup_free_ V1beta1__Device **pointers = calloc(ids->n + 1, sizeof(*pointers));
	V1beta1__ListAndWatchResponse response = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;

	if (!devices || !pointers)
		return NULL;
	for (size_t i = 0; i < ids->n; i++) {
		v1beta1__device__init(&devices[i]);
		devices[i].id = ids->ids[i];
		devices[i].health = ids->healthy[i] ? "Healthy" : "Unhealthy";
		pointers[i] = &devices[i];
	}
	response.n_devices = ids->n;
	response.devices = pointers;
	return wire_pack(&response.base, ret_len);
}

/* A node whose mode has no gpu-mem says so with an empty list: its resource goes to 0. */
static uint8_t *plugin_state(const struct plugin *plugin, size_t *ret_len)
{
	const struct agent *agent = plugin->agent;
	struct device_ids ids = {0};
	uint8_t *packed;

	if (agent_serves(agent) && ids_build(&agent->inventory, &agent->pods, &agent->served, &ids) < 0)
		return NULL;
	packed = pack_devices(&ids, ret_len);
	ids_release(&ids);
	return packed;
}

static void handle_list_and_watch(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	struct plugin *plugin = userdata;
	_cleanup_free_ uint8_t *state = NULL;
	size_t state_len = 0;

	if (plugin->n_streams == STREAMS_MAX) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "too many ListAndWatch streams");
		return;
	}
	state = plugin_state(plugin, &state_len);
	if (!state || grpc_call_send(call, state, state_len) < 0) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	plugin->streams[plugin->n_streams++] = call;
	free(plugin->message);
	plugin->message = TAKE_PTR(state);
	plugin->message_len = state_len;
	log_debug("the kubelet watches our devices");
}

static void list_and_watch_closed(void *userdata, struct grpc_call *call)
{
	struct plugin *plugin = userdata;

	for (size_t i = 0; i < plugin->n_streams; i++)
		if (plugin->streams[i] == call) {
			plugin->streams[i] = plugin->streams[--plugin->n_streams];
			break;
		}
	if (!plugin->n_streams && plugin->agent->registrar)
		registrar_unwatched(plugin->agent->registrar);
}

static void handle_allocate(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	allocator_handle(((struct plugin *)userdata)->allocator, call, message, len);
}

static void allocate_closed(void *userdata, struct grpc_call *call)
{
	allocator_closed(((struct plugin *)userdata)->allocator, call);
}

static void handle_preferred(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	preferrer_handle(((struct plugin *)userdata)->preferrer, call, message, len);
}

static void preferred_closed(void *userdata, struct grpc_call *call)
{
	preferrer_closed(((struct plugin *)userdata)->preferrer, call);
}

static void handle_prestart(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	prestart_handle(((struct plugin *)userdata)->agent, call, message, len);
}

static const struct grpc_method METHODS[] = {
	{"/v1beta1.DevicePlugin/GetDevicePluginOptions", handle_options, NULL},
	{"/v1beta1.DevicePlugin/ListAndWatch", handle_list_and_watch, list_and_watch_closed},
	{"/v1beta1.DevicePlugin/GetPreferredAllocation", handle_preferred, preferred_closed},
	{"/v1beta1.DevicePlugin/Allocate", handle_allocate, allocate_closed},
	{"/v1beta1.DevicePlugin/PreStartContainer", handle_prestart, NULL},
};

int plugin_new(struct agent *agent, struct plugin **ret_plugin)
{
	struct plugin *plugin = calloc(1, sizeof(*plugin));
	int r;

	if (!plugin)
		return -ENOMEM;
	plugin->agent = agent;
	r = allocator_new(agent, &plugin->allocator);
	if (r == 0)
		r = preferrer_new(agent, &plugin->preferrer);
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
	grpc_server_free(plugin->server);
	allocator_free(plugin->allocator);
	preferrer_free(plugin->preferrer);
	free(plugin->message);
	free(plugin);
}

bool plugin_reachable(const struct plugin *plugin)
{
	return plugin->server && grpc_server_is_reachable(plugin->server);
}

int plugin_listen(struct plugin *plugin, struct error *err)
{
	char path[PATH_MAX];

	if (plugin_reachable(plugin))
		return 0;
	grpc_server_free(plugin->server);
	plugin->server = NULL;
	snprintf(path, sizeof(path), "%s/%s", plugin->agent->options.plugin_dir, PLUGIN_ENDPOINT);
	return grpc_server_new(
		plugin->agent->loop, path, METHODS, ARRAY_SIZE(METHODS), plugin, &plugin->server, err);
}

bool plugin_watched(const struct plugin *plugin)
{
	return plugin->n_streams;
}

static bool all_healthy(const struct inventory *inventory)
{
	for (size_t i = 0; i < inventory->n_cards; i++)
		if (!inventory->cards[i].facts.healthy)
			return false;
	return true;
}

/* While all cards are healthy the list depends on nothing else: no need to make thousands of ids to see that
 * they are the same. Remembers what it saw. */
static bool plugin_may_differ(struct plugin *plugin)
{
	const struct agent *agent = plugin->agent;
	bool serves = agent_serves(agent), healthy = all_healthy(&agent->inventory);
	uint32_t units = inventory_units(&agent->inventory);
	bool same = healthy && plugin->message_healthy && serves == plugin->message_serves &&
		    units == plugin->message_units;

	plugin->message_serves = serves;
	plugin->message_healthy = healthy;
	plugin->message_units = units;
	return !same;
}

void plugin_update(struct plugin *plugin)
{
	_cleanup_free_ uint8_t *state = NULL;
	size_t len = 0;

	if (!plugin->n_streams || !plugin_may_differ(plugin))
		return;
	state = plugin_state(plugin, &len);
	if (!state || (len == plugin->message_len && memcmp(state, plugin->message, len) == 0))
		return;
	for (size_t i = 0; i < plugin->n_streams; i++)
		if (grpc_call_send(plugin->streams[i], state, len) < 0)
			return;
	free(plugin->message);
	plugin->message = TAKE_PTR(state);
	plugin->message_len = len;
}
