#include "agent/delivery/delivery.h"

#include <errno.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/delivery/cdi.h"
#include "agent/delivery/driver-files.h"
#include "agent/delivery/grants.h"
#include "agent/delivery/isolation.h"
#include "base/error.h"
#include "kube/names.h"

static void report_ignored(struct agent *agent, const struct node_pod *pod, const char *container)
{
	char text[600];

	snprintf(text, sizeof(text),
		"container %s sets " ENV_CGPU_DISABLE
		", which this cluster does not allow: it is held to its GPU memory all the same (the chart's value allowDisable)",
		container);
	event_on_pod(&agent->events, &pod->facts, "GPUDisableIgnored", text);
}

/* The pod's own at once, the image's when it is known. */
static void report_capability(
	struct agent *agent, const struct node_pod *pod, const char *container, bool starting)
{
	const struct container_spec *spec = node_pod_container(pod, container);
	char unknown[64], text[600];

	driver_capabilities(spec ? spec->capabilities : NULL, unknown, sizeof(unknown));
	if (!unknown[0] || spec->capabilities_by_spec == starting)
		return;
	snprintf(text, sizeof(text),
		"container %s sets " ENV_DRIVER_CAPABILITIES
		" with \"%s\" in it, for which there are no files: what there is are compute, utility, video, graphics, display, ngx and all",
		container, unknown);
	event_on_pod(&agent->events, &pod->facts, "GPUDriverCapabilityUnknown", text);
}

static int make_isolated(struct agent *agent, const struct node_pod *pod, const char *container,
	bool starting, struct error *err)
{
	const struct cdi_isolation isolation = {.state_dir = agent->options.state_dir,
		.shim_version = agent->isolation.shim_version,
		.allow_disable = agent->options.allow_disable};
	bool asks = node_pod_asks_for_no_limit(pod, container);
	int r = 0;

	isolation_look(agent);
	if (*isolation_problem(agent))
		return error_set(err, EHOSTDOWN, "pod %s/%s cannot have its GPU: %.400s",
			pod->facts.namespace_, pod->facts.name, isolation_problem(agent));
	if (asks && !agent->options.allow_disable && !grants_find(agent, pod->facts.uid, container))
		report_ignored(agent, pod, container);
	if (!asks || !agent->options.allow_disable)
		r = grants_prepare(agent, pod, container, starting, err);
	return r < 0 ? r
		     : cdi_write(agent->options.cdi_dir, &agent->node.inventory, &agent->driver, pod,
			       container, &isolation, err);
}

int delivery_make(struct agent *agent, const struct node_pod *pod, const char *container, bool starting,
	struct error *err)
{
	int r = driver_scan(&agent->driver, err);

	if (r < 0)
		return r;
	report_capability(agent, pod, container, starting);
	if (gpu_mode_is_isolated(agent->node.in_force))
		return make_isolated(agent, pod, container, starting, err);
	return cdi_write(
		agent->options.cdi_dir, &agent->node.inventory, &agent->driver, pod, container, NULL, err);
}

bool delivery_exists(const struct agent *agent, const char *uid, const char *container)
{
	return cdi_exists(agent->options.cdi_dir, uid) &&
	       (!gpu_mode_is_isolated(agent->node.in_force) || agent->options.allow_disable ||
		       grants_find(agent, uid, container));
}

void delivery_remove(struct agent *agent, const char *uid)
{
	/* In this order: a container that is started in between finds no device, rather than no grant. */
	cdi_remove(agent->options.cdi_dir, uid);
	grants_remove(agent, uid);
	delivery_remove_shims(agent);
}

void delivery_remove_shims(struct agent *agent)
{
	/* Somebody may have cleared the folder of CDI files: what such a pod has is not known then. */
	list_for_each (item, &agent->grants)
		if (!cdi_exists(agent->options.cdi_dir, list_entry(item, struct node_grant, item)->uid))
			return;
	shim_remove_old(agent->options.state_dir, agent->isolation.shim_version, agent->options.cdi_dir);
}
