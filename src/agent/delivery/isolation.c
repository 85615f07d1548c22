#include "agent/delivery/isolation.h"

#include <string.h>

#include "agent/agent.h"
#include "agent/delivery/runtime.h"
#include "agent/node/health.h"
#include "base/clock.h"
#include "base/log.h"

#define SHIM_AGAIN_NS (5 * NS_PER_S)  /* after a failure */
#define ASK_AGAIN_NS (5 * NS_PER_S)   /* a runtime that does no CDI */
#define SHIM_CHECK_NS (60 * NS_PER_S) /* somebody may have removed it from the host */

static void look_at_shim(struct agent *agent)
{
	struct isolation *isolation = &agent->isolation;
	struct error err = {""};
	int r;

	if (monotonic_ns() < isolation->shim_again_ns && isolation->shim_driver == agent->driver.generation)
		return;
	isolation->shim_driver = agent->driver.generation;
	r = shim_install(agent->options.shim_dir, &agent->driver, agent->options.state_dir,
		isolation->shim_version, &err);
	isolation->shim_problem = err;
	isolation->shim_again_ns = monotonic_ns() + (r < 0 ? SHIM_AGAIN_NS : SHIM_CHECK_NS);
}

static void find_problem(struct agent *agent, struct error *ret_problem)
{
	const char *told = agent->node.inventory.driver_version, *named = agent->driver.version;
	int r;

	if (runtime_answered(agent->runtime) && !runtime_does_cdi(agent->runtime)) {
		error_set(ret_problem, 1,
			"the container runtime does not apply CDI files of %.100s, so that no container could be held to its GPU memory: enable CDI in its configuration (containerd 1.7: enable_cdi = true under [plugins.\"io.containerd.grpc.v1.cri\"]) and restart it",
			agent->options.cdi_dir);
		if (monotonic_ns() >= agent->isolation.ask_again_ns) {
			agent->isolation.ask_again_ns = monotonic_ns() + ASK_AGAIN_NS;
			runtime_ask(agent->runtime);
		}
		return;
	}
	r = driver_scan(&agent->driver, ret_problem);
	if (r == 0)
		gpu_health_follow(agent->health);
	look_at_shim(agent);
	if (!agent->isolation.shim_version[0] || agent->isolation.shim_problem.text[0]) {
		*ret_problem = agent->isolation.shim_problem;
		return;
	}
	if (r == 0 && !named[0])
		error_set(ret_problem, 1, "%s: reinstall the driver, or share this node without isolation",
			agent->driver.version_problem);
	else if (r == 0 && told[0] && strcmp(told, named) != 0 && !gpu_health_is_outdated(agent->health))
		error_set(ret_problem, 1,
			"the NVIDIA driver that runs is of version %s, but its libraries below %.100s are of version %s: restart the node, or install the libraries of the driver that runs",
			told, agent->driver.root, named);
	if (r < 0 || !named[0])
		return;
	unknown_compare(agent);
	if (!ret_problem->text[0] && agent->isolation.unknown.count &&
		agent->options.unknown_functions == UNKNOWN_REFUSE)
		error_set(ret_problem, 1, "%s, or set the chart's value unknownFunctions to serve",
			agent->isolation.unknown.text);
}

void isolation_look(struct agent *agent)
{
	struct isolation *isolation = &agent->isolation;
	struct error problem = {""};
	char text[700];

	if (gpu_mode_is_isolated(agent->node.in_force))
		find_problem(agent, &problem);
	if (strcmp(problem.text, isolation->problem.text) == 0)
		return;
	isolation->problem = problem;
	if (!problem.text[0]) {
		log_info("containers can be held to their GPU memory again");
		return;
	}
	snprintf(text, sizeof(text), "this node takes no GPU pods in mode \"%s\": %s",
		gpu_mode_text(agent->node.in_force), problem.text);
	event_on_node(&agent->events, "GPUIsolationNotReady", text);
}
