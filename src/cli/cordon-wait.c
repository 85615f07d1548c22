#include "cli/cordon-wait.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/inspect-read.h"
#include "cli/list-read.h"
#include "kube/names.h"

#define LOOK_US 300000

const struct inspect_node *cordon_node(const struct inspect *inspect)
{
	const struct inspect_node *node = inspect->n_nodes ? inspect->nodes[0] : NULL;

	return node && node->n_gpus && *node->gpus[0].uuid ? node : NULL;
}

const struct inspect_gpu *cordon_gpu(const struct inspect_node *node, const struct fault *fault)
{
	for (size_t i = 0; node && i < node->n_gpus; i++)
		if (fault_is_about(fault, node->gpus[i].column, node->gpus[i].uuid))
			return &node->gpus[i];
	return NULL;
}

int cordon_look(
	const struct kubectl *kubectl, const char *node, struct inspect *ret_inspect, struct error *err)
{
	struct warnings warnings = {0};

	inspect_release(ret_inspect);
	return inspect_fetch(ret_inspect, kubectl, node, &warnings, err);
}

/* Whether the GPU has the state of the list now. If the GPU is unhealthy for another reason, the list has no
 * visible effect. */
static bool is_taken_up(const struct cordon_change *change, const struct inspect_gpu *gpu)
{
	if (!gpu)
		return false;
	if (!change->uncordon)
		return !gpu->healthy;
	return gpu->healthy || !gpu->reason ||
	       (strncmp(gpu->reason, "cordoned", strlen("cordoned")) != 0 &&
		       !strstr(gpu->reason, CONFIG_MAP_UNHEALTHY_PREFIX));
}

int cordon_await(const struct kubectl *kubectl, const struct cordon_change *change, uint32_t timeout_s,
	const volatile sig_atomic_t *stop, struct inspect *inspect, struct error *err)
{
	int64_t give_up_ns = monotonic_ns() + timeout_s * NS_PER_S;

	for (;;) {
		int r = cordon_look(kubectl, change->node, inspect, err);

		if (r < 0 || !timeout_s || (stop && *stop) ||
			is_taken_up(change, cordon_gpu(cordon_node(inspect), &change->fault)))
			return r;
		if (monotonic_ns() >= give_up_ns)
			return error_set(err, ETIMEDOUT,
				"the change is stored, but the agent of node %s has not applied it within %u s: does the DaemonSet gpushare-device-plugin-ds run there, and is its chart's value faultLists true? `kubectl get events --field-selector involvedObject.name=%s` may say more",
				change->node, timeout_s, change->node);
		usleep(LOOK_US);
	}
}
