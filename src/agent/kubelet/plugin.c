#include "agent/kubelet/plugin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/kubelet/allocate.h"
#include "agent/kubelet/calls.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/kubelet/ids.h"
#include "agent/kubelet/preferred.h"
#include "agent/kubelet/prestart.h"
#include "agent/kubelet/registrar.h"
#include "agent/kubelet/wire.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"

#define STREAMS_MAX 16

struct plugin {
	struct agent *agent;
	struct calls *calls;
	struct allocator *allocator;
	struct preferrer *preferrer;
	struct kubelet_call *streams[STREAMS_MAX];
	size_t n_streams;
	bool begun;
	uint8_t *message; /* what the streams were last told */
	size_t message_len;
	bool message_serves; /* what it was made of: */
	uint32_t message_units;
	bool message_healthy;
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

/* A node whose mode has no gpu-mem says so with an empty list: its resource goes to 0. One that cannot hold
 * containers to their limits at the moment keeps what pods hold. */
static uint8_t *plugin_state(const struct plugin *plugin, size_t *ret_len)
{
	const struct agent *agent = plugin->agent;
	struct inventory inventory = agent->inventory;
	struct device_ids ids = {0};
	uint8_t *packed;

	for (size_t i = 0; *isolation_problem(agent) && i < inventory.n_cards; i++)
		inventory.cards[i].facts.healthy = false;
	if (agent_serves(agent) &&
		ids_build(&inventory, &agent->pods, &agent->served, &agent->spent, &ids) < 0)
		return NULL;
	packed = pack_devices(&ids, ret_len);
	ids_release(&ids);
	return packed;
}

static bool all_healthy(const struct agent *agent)
{
	const struct inventory *inventory = &agent->inventory;

	if (*isolation_problem(agent))
		return false;
	for (size_t i = 0; i < inventory->n_cards; i++)
		if (!inventory->cards[i].facts.healthy)
			return false;
	return true;
}

/* While all cards are healthy the list depends on nothing else: no need to make thousands of ids to see that
 * they are the same. */
static bool plugin_may_differ(const struct plugin *plugin)
{
	const struct agent *agent = plugin->agent;

	return !plugin->message || !plugin->message_healthy || !all_healthy(agent) ||
	       agent_serves(agent) != plugin->message_serves ||
	       inventory_units(&agent->inventory) != plugin->message_units;
}

/* All streams were told; takes state. */
static void plugin_remember(struct plugin *plugin, uint8_t *state, size_t len)
{
	const struct agent *agent = plugin->agent;

	free(plugin->message);
	plugin->message = state;
	plugin->message_len = len;
	plugin->message_serves = agent_serves(agent);
	plugin->message_healthy = all_healthy(agent);
	plugin->message_units = inventory_units(&agent->inventory);
}

static void handle_list_and_watch(
	void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	struct plugin *plugin = userdata;
	_cleanup_free_ uint8_t *state = NULL;
	size_t state_len = 0;

	if (plugin->n_streams == STREAMS_MAX) {
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "too many ListAndWatch streams");
		return;
	}
	/* What the worker before us said still holds; what we would say now, before we know the pods, may
	 * not.
	 */
	if (kubelet_call_resumed(call)) {
		plugin->streams[plugin->n_streams++] = call;
		return;
	}
	state = plugin_state(plugin, &state_len);
	if (!state || kubelet_call_send(call, state, state_len) < 0) {
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	plugin->streams[plugin->n_streams++] = call;
	plugin_remember(plugin, TAKE_PTR(state), state_len);
	log_debug("the kubelet watches our devices");
	agent_changed(plugin->agent);
}

static void list_and_watch_closed(void *userdata, struct kubelet_call *call)
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

static void handle_allocate(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	allocator_handle(((struct plugin *)userdata)->allocator, call, message, len);
}

static void allocate_closed(void *userdata, struct kubelet_call *call)
{
	allocator_closed(((struct plugin *)userdata)->allocator, call);
}

static void handle_preferred(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	preferrer_handle(((struct plugin *)userdata)->preferrer, call, message, len);
}

static void preferred_closed(void *userdata, struct kubelet_call *call)
{
	preferrer_closed(((struct plugin *)userdata)->preferrer, call);
}

static void handle_prestart(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	prestart_handle(((struct plugin *)userdata)->agent, call, message, len);
}

static void on_listening(void *userdata, const char *text)
{
	struct plugin *plugin = userdata;

	if (plugin->agent->registrar)
		registrar_listening(plugin->agent->registrar, text);
}

static const struct calls_ops OPS = {
	.methods =
		{
			[RELAY_OPTIONS] = {handle_options, NULL},
			[RELAY_LIST_AND_WATCH] = {handle_list_and_watch, list_and_watch_closed},
			[RELAY_PREFERRED] = {handle_preferred, preferred_closed},
			[RELAY_ALLOCATE] = {handle_allocate, allocate_closed},
			[RELAY_PRESTART] = {handle_prestart, NULL},
		},
	.listening = on_listening,
};

int plugin_new(struct agent *agent, struct plugin **ret_plugin)
{
	struct plugin *plugin = calloc(1, sizeof(*plugin));
	int r;

	if (!plugin) {
		close(TAKE_FD(&agent->relay_fd));
		return -ENOMEM;
	}
	plugin->agent = agent;
	r = calls_new(agent->loop, TAKE_FD(&agent->relay_fd), &OPS, plugin, &plugin->calls);
	if (r == 0)
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
	calls_free(plugin->calls);
	allocator_free(plugin->allocator);
	preferrer_free(plugin->preferrer);
	free(plugin->message);
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

void plugin_listen(struct plugin *plugin)
{
	calls_listen(plugin->calls);
}

bool plugin_watched(const struct plugin *plugin)
{
	return plugin->n_streams;
}

/* Some streams had it, some did not: the next update tells them all. */
static void plugin_forget(struct plugin *plugin)
{
	free(plugin->message);
	plugin->message = NULL;
	plugin->message_len = 0;
}

void plugin_update(struct plugin *plugin)
{
	_cleanup_free_ uint8_t *state = NULL;
	size_t len = 0;
	bool same;

	if (!plugin->n_streams || (!plugin->message && !plugin->agent->settled) || !plugin_may_differ(plugin))
		return;
	state = plugin_state(plugin, &len);
	if (!state)
		return;
	same = plugin->message && len == plugin->message_len && memcmp(state, plugin->message, len) == 0;
	for (size_t i = 0; !same && i < plugin->n_streams; i++)
		if (kubelet_call_send(plugin->streams[i], state, len) < 0) {
			plugin_forget(plugin);
			return;
		}
	plugin_remember(plugin, TAKE_PTR(state), len);
}
