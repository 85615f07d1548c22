/* unregistered.c - posts the Event GPUNotRegistered while the kubelet lacks devices that the node offers. */
#include "agent/kubelet/kubelet-internal.h"

#include <stdio.h>
#include <string.h>

#include "agent/container/runtime.h"
#include "agent/kubelet/core-plugin.h"
#include "agent/kubelet/plugin.h"
#include "agent/kubelet/registrar.h"
#include "base/clock.h"
#include "base/log.h"

#define PATIENCE_NS (10 * NS_PER_S)
#define REMIND_NS (300 * NS_PER_S)

/* The registrar of a resource that is offered and that the kubelet does not have; NULL: the kubelet has all.
 */
static const struct registrar *find_missing(const struct kubelet *kubelet)
{
	if (node_registry_offers(kubelet->deps.node, IDS_OF_GPUS) && !plugin_watched(kubelet->gpu_plugin))
		return kubelet->gpu_registrar;
	if (node_registry_offers(kubelet->deps.node, IDS_OF_UNITS) && !plugin_watched(kubelet->plugin))
		return kubelet->registrar;
	if (node_registry_offers(kubelet->deps.node, IDS_OF_CORE) &&
		!core_plugin_watched(kubelet->core_plugin))
		return kubelet->core_registrar;
	return NULL;
}

static void describe(const struct kubelet *kubelet, const struct registrar *missing, char *buf, size_t size)
{
	char failure[320];

	if (!runtime_answered(kubelet->deps.runtime)) {
		snprintf(buf, size,
			"the kubelet is not told of this node's GPUs, since the container runtime at %s does not answer",
			kubelet->deps.cri_socket);
		return;
	}
	registrar_failure(missing, failure, sizeof(failure));
	snprintf(buf, size,
		"%s; no new pods go there. To mend it restart the kubelet of this node (systemctl restart kubelet); if that does not help, see its log",
		failure);
}

void unregistered_look(struct kubelet *kubelet)
{
	struct unregistered *unregistered = &kubelet->unregistered;
	char *text = kubelet->deps.node->problems.unregistered;
	const struct registrar *missing = kubelet->deps.node->leaving ? NULL : find_missing(kubelet);
	int64_t now = monotonic_ns();

	if (!missing) {
		if (*text)
			log_info("the kubelet has all devices of this node again");
		*unregistered = (struct unregistered){0};
		*text = '\0';
		return;
	}
	if (!unregistered->since_ns)
		unregistered->since_ns = now;
	if (now - unregistered->since_ns < PATIENCE_NS)
		return;
	describe(kubelet, missing, text, sizeof(kubelet->deps.node->problems.unregistered));
	if (unregistered->told_ns && now - unregistered->told_ns < REMIND_NS)
		return;
	unregistered->told_ns = now;
	event_on_node(kubelet->deps.events, "GPUNotRegistered", text);
}

int64_t kubelet_unregistered_ns(const struct kubelet *kubelet)
{
	return kubelet->unregistered.since_ns ? monotonic_ns() - kubelet->unregistered.since_ns : 0;
}
