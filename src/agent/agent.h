/* agent.h - the running agent: its parts, and the registry that they share. One thread, one loop. A part does
 * not include this; agent.c gives it what it needs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/container/driver.h"
#include "agent/events.h"
#include "agent/node/device-loss.h"
#include "agent/node/settle.h"
#include "agent/options.h"
#include "agent/supervisor.h"
#include "node/registry.h"

struct delivery;
struct door;
struct faults;
struct gpu_health;
struct grpc_client;
struct kube_client;
struct kube_watch;
struct kubelet;
struct lease;
struct leave;
struct leftovers;
struct looks;
struct loop;
struct loop_timer;
struct orphans;
struct podresources;
struct power;
struct refused;
struct report;
struct runtime;
struct strays;
struct topology;
struct watchdog;

struct agent {
	struct options options;
	struct loop *loop;
	struct relay_ends relays; /* to the supervisor; the plugins take them */
	struct kube_client *client;
	struct events events;
	struct kube_watch *node_watch, *pod_watch;

	struct driver driver;
	struct gpu_health *health;
	struct faults *faults;
	struct looks *looks;
	struct watchdog *watchdog;
	struct refused *refused;
	struct power *power;
	struct grpc_client *cri; /* to the container runtime; all parts share its connection */
	struct runtime *runtime;
	struct delivery *delivery;
	struct device_loss device_loss;

	struct node_registry node;
	int64_t pods_relisted_ns; /* 0: what happened to pods was seen without a gap */
	struct podresources *podresources;

	struct settle settle;
	char unknown_placement[64]; /* of the node's label, "" if that is known or not there */

	bool remember_failure; /* was said */
	struct lease *lease;
	struct leave *leave; /* not NULL: on the way out */
	bool uninstalled;    /* the chart is being removed: no agent comes after us */
	struct kubelet *kubelet;
	struct report *report;
	struct topology *topology;
	struct orphans *orphans;
	struct leftovers *leftovers;
	struct strays *strays;
	struct loop_timer *tick, *reconcile; /* each second; when something has changed */
	uint64_t respawns;		     /* of this process by its supervisor */
	struct door *metrics_page, *probes;
};

/* agent_start() - everything, on agent->loop, from agent->options. agent_stop() undoes it, in part if the
 * start failed in part. */
int agent_start(struct agent *agent, struct error *err);
void agent_stop(struct agent *agent);

/* agent_changed() - GPUs, mode, pods or settings are not what they were. The loop calls
 * agent_reconcile() once, soon after the caller has returned, however often this was called. */
void agent_changed(struct agent *agent);

/* agent_reconcile(), agent_tick() - of the loop's timers. reconcile.c has all that follows from a change, and
 * all that is done each second, in order. userdata is the agent. */
void agent_reconcile(void *userdata);
void agent_tick(void *userdata);

/* agent_forget_gone() - the record of device ids forgets the pods that the API server does not have. To be
 * called only when all pods of the node are known. */
void agent_forget_gone(struct agent *agent);
