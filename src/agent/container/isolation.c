#include "agent/container/delivery-internal.h"

#include <stdio.h>
#include <string.h>

#include "agent/container/driver.h"
#include "agent/container/runtime.h"
#include "agent/events.h"
#include "agent/gpu/health.h"
#include "base/clock.h"
#include "base/log.h"
#include "node/registry.h"

#define SHIM_AGAIN_NS (5 * NS_PER_S)  /* after a failure */
#define ASK_AGAIN_NS (5 * NS_PER_S)   /* a runtime that does no CDI */
#define SHIM_CHECK_NS (60 * NS_PER_S) /* a user may have removed the shim from the host */

static void look_at_shim(struct delivery *delivery)
{
	struct isolation *isolation = &delivery->isolation;
	struct error err = {""};
	int r;

	if (monotonic_ns() < isolation->shim_again_ns &&
		isolation->shim_driver == delivery->deps.driver->generation)
		return;
	isolation->shim_driver = delivery->deps.driver->generation;
	r = shim_install(delivery->deps.shim_dir, delivery->deps.driver, delivery->deps.state_dir,
		isolation->shim_version, &err);
	isolation->shim_problem = err;
	isolation->shim_again_ns = monotonic_ns() + (r < 0 ? SHIM_AGAIN_NS : SHIM_CHECK_NS);
}

static void find_problem(struct delivery *delivery, struct error *ret_problem)
{
	const char *told = delivery->deps.node->inventory.driver_version,
		   *named = delivery->deps.driver->version;
	int r;

	if (runtime_answered(delivery->deps.runtime) && !runtime_does_cdi(delivery->deps.runtime)) {
		error_set(ret_problem, 1,
			"the container runtime does not apply CDI files of %.100s, so ration cannot limit the GPU memory of containers: enable CDI in its configuration (containerd 1.7: enable_cdi = true under [plugins.\"io.containerd.grpc.v1.cri\"]; CRI-O: that folder in cdi_spec_dirs) and restart it",
			delivery->deps.cdi_dir);
		if (monotonic_ns() >= delivery->isolation.ask_again_ns) {
			delivery->isolation.ask_again_ns = monotonic_ns() + ASK_AGAIN_NS;
			runtime_ask(delivery->deps.runtime);
		}
		return;
	}
	r = driver_scan(delivery->deps.driver, ret_problem);
	if (r == 0)
		gpu_health_follow(delivery->deps.health);
	look_at_shim(delivery);
	if (!delivery->isolation.shim_version[0] || delivery->isolation.shim_problem.text[0]) {
		*ret_problem = delivery->isolation.shim_problem;
		return;
	}
	if (r == 0 && !named[0])
		error_set(ret_problem, 1, "%s: reinstall the driver, or share this node without isolation",
			delivery->deps.driver->version_problem);
	else if (r == 0 && told[0] && strcmp(told, named) != 0 &&
		 !gpu_health_is_outdated(delivery->deps.health))
		error_set(ret_problem, 1,
			"the NVIDIA driver that runs is of version %s, but its libraries below %.100s are of version %s: restart the node, or install the libraries of the driver that runs",
			told, delivery->deps.driver->root, named);
	if (r < 0 || !named[0])
		return;
	unknown_compare(delivery);
	if (!ret_problem->text[0] && delivery->isolation.unknown.count &&
		delivery->deps.on_unknown == UNKNOWN_REFUSE)
		error_set(ret_problem, 1, "%s, or set the chart's value unknownFunctions to serve",
			delivery->isolation.unknown.text);
}

void delivery_look(struct delivery *delivery)
{
	struct node_registry *node = delivery->deps.node;
	bool isolated = gpu_mode_is_isolated(node->in_force);
	struct error problem = {""};
	char text[700];

	if (isolated)
		find_problem(delivery, &problem);
	snprintf(node->problems.unknown_functions, sizeof(node->problems.unknown_functions), "%s",
		isolated ? delivery->isolation.unknown.text : "");
	if (strcmp(problem.text, node->problems.isolation) == 0)
		return;
	memcpy(node->problems.isolation, problem.text, sizeof(problem.text));
	if (!problem.text[0]) {
		log_info("the GPU memory of containers can be limited again");
		return;
	}
	snprintf(text, sizeof(text), "this node takes no GPU pods in mode \"%s\": %s",
		gpu_mode_text(node->in_force), problem.text);
	event_on_node(delivery->deps.events, "GPUIsolationNotReady", text);
}
