#include "agent/kubelet/kubelet.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/container/images.h"
#include "agent/container/runtime.h"
#include "agent/kubelet/core-plugin.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/kubelet/plugin.h"
#include "agent/kubelet/prestart.h"
#include "agent/kubelet/registrar.h"

int kubelet_new(const struct kubelet_deps *deps, struct kubelet **ret_kubelet)
{
	struct kubelet *kubelet = calloc(1, sizeof(*kubelet));
	int r;

	if (!kubelet)
		return -ENOMEM;
	kubelet->deps = *deps;
	list_init(&kubelet->assignments);
	list_init(&kubelet->prestarts);
	served_init(&kubelet->checkpoint.served);
	r = turn_list_start(kubelet);
	if (r == 0)
		r = images_new(deps->cri, prestart_look_again, kubelet, &kubelet->images);
	if (r == 0)
		r = plugin_new(kubelet, false, &kubelet->plugin);
	if (r == 0)
		r = plugin_new(kubelet, true, &kubelet->gpu_plugin);
	if (r == 0)
		r = core_plugin_new(kubelet, &kubelet->core_plugin);
	if (r == 0)
		r = registrar_new(kubelet, &plugin_registration, &kubelet->registrar);
	if (r == 0)
		r = registrar_new(kubelet, &core_registration, &kubelet->core_registrar);
	if (r == 0)
		r = registrar_new(kubelet, &gpu_registration, &kubelet->gpu_registrar);
	if (r < 0)
		kubelet_free(kubelet);
	else
		*ret_kubelet = kubelet;
	return r;
}

void kubelet_free(struct kubelet *kubelet)
{
	if (!kubelet)
		return;
	registrar_free(kubelet->registrar);
	registrar_free(kubelet->core_registrar);
	registrar_free(kubelet->gpu_registrar);
	/* The plugins' calls end now; without this, they would call the registrars. */
	kubelet->registrar = kubelet->core_registrar = kubelet->gpu_registrar = NULL;
	plugin_free(kubelet->plugin);
	plugin_free(kubelet->gpu_plugin);
	core_plugin_free(kubelet->core_plugin);
	assign_stop(kubelet);
	turn_list_stop(kubelet);
	images_free(kubelet->images);
	served_release(&kubelet->checkpoint.served);
	free(kubelet);
}

bool kubelet_has_devices(const struct kubelet *kubelet)
{
	const struct node_registry *node = kubelet->deps.node;

	if (node->in_force == GPU_MODE_DRA)
		return node->watched;
	return plugin_watched(node->in_force == GPU_MODE_TOPOLOGY ? kubelet->gpu_plugin : kubelet->plugin) &&
	       (!node_registry_offers(node, IDS_OF_CORE) || core_plugin_watched(kubelet->core_plugin));
}

void kubelet_offer(struct kubelet *kubelet)
{
	struct node_registry *node = kubelet->deps.node;

	/* What the container runtime supports decides how Allocate is answered. */
	if (runtime_answered(kubelet->deps.runtime)) {
		plugin_begin(kubelet->plugin);
		plugin_begin(kubelet->gpu_plugin);
		core_plugin_begin(kubelet->core_plugin);
		if (node_registry_offers(node, IDS_OF_UNITS))
			registrar_want(kubelet->registrar);
		if (node_registry_offers(node, IDS_OF_GPUS))
			registrar_want(kubelet->gpu_registrar);
		if (node_registry_offers(node, IDS_OF_CORE))
			registrar_want(kubelet->core_registrar);
	}
	plugin_update(kubelet->plugin);
	plugin_update(kubelet->gpu_plugin);
	core_plugin_update(kubelet->core_plugin);
	/* In the mode dra the kubelet has a driver instead of devices (dra.h). */
	if (node->in_force == GPU_MODE_DRA)
		return;
	unregistered_look(kubelet);
	node->watched = kubelet_has_devices(kubelet);
}

const struct kubelet_counts *kubelet_counts(const struct kubelet *kubelet)
{
	return &kubelet->counts;
}
