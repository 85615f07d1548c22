/* agent.h - the running agent: its parts, and the registry that they share. It has one thread and one loop. A
 * part does not include this header; agent.c passes what the part needs. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/container/driver.h"
#include "agent/events.h"
#include "agent/node/warnings.h"
#include "agent/node/settle.h"
#include "agent/options.h"
#include "agent/supervisor.h"
#include "node/registry.h"

struct alive;
struct delivery;
struct door;
struct dra;
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
	struct dra_kept *kept;	  /* the supervisor's */
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
	char cri_folder[PATH_MAX];     /* of the container runtime's socket */
	const char *host_paths[5 + 1]; /* of the node, which pods with claims may not mount */
	int64_t pods_relisted_ns;      /* 0: the events of pods were seen without a gap */
	struct podresources *podresources;

	struct settle settle;
	char unknown_placement[64]; /* the value of the node's label; "" if the value is known or the label is
				       absent */

	bool remember_failure; /* the failure was logged */
	struct lease *lease;
	struct leave *leave; /* not NULL: the agent is about to end */
	bool uninstalled;    /* the chart is being removed: no other agent follows */
	struct kubelet *kubelet;
	struct dra *dra;
	struct alive *alive; /* the question of the claims, beside that of the leftovers */
	struct report *report;
	struct topology *topology;
	struct orphans *orphans;
	struct leftovers *leftovers;
	struct strays *strays;
	struct loop_timer *tick, *reconcile; /* each second; after a change */
	uint64_t respawns;		     /* of this process by its supervisor */
	struct door *metrics_page, *probes;
};

/* agent_start() - starts everything, on agent->loop, from agent->options. agent_stop() undoes it, also after
 * a start that failed midway. */
int agent_start(struct agent *agent, struct error *err);
void agent_stop(struct agent *agent);

/* agent_changed() - GPUs, mode, pods or settings have changed. The loop calls agent_reconcile() once, soon
 * after the caller has returned, however often this was called. */
void agent_changed(struct agent *agent);

/* agent_reconcile(), agent_tick() - callbacks of the loop's timers. In reconcile.c they do everything that
 * follows from a change, and everything that is due each second, in order. userdata is the agent. */
void agent_reconcile(void *userdata);
void agent_tick(void *userdata);

/* agent_forget_gone() - removes from the record of device ids the pods that the API server does not have.
 * Call it only when all pods of the node are known. */
void agent_forget_gone(struct agent *agent);
