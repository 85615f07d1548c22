/* gang-fixture.h - a ledger, its gangs and a clock, and what kube-scheduler does in one line each. */
#pragma once

#include "core/gang/gang.h"
#include "core/registry/ledger.h"

#define SECOND INT64_C(1000000000)

struct scene {
	struct ledger ledger;
	struct requeue_list requeues;
	struct gangs gangs;
	int64_t now_ns;
	int64_t requeues_again_ns; /* what the last look at requeues said */
	char orders[1024];	   /* since they were asked for last: "nudge:u1 go:u2 " */
	const char *node, *text;   /* of the last answer of filter */
};

int scene_open(void **state);
int scene_close(void **state);

/* One GPU of this many units on each of the nodes n0, n1 ..., or on this one. */
void scene_nodes(struct scene *scene, size_t n, uint32_t units);
void scene_node(struct scene *scene, const char *name, uint32_t units);

/* A waiting pod of this gang of default/, created `number` seconds after the first; the watch shows it. */
void scene_pod(struct scene *scene, const char *uid, const char *gang, uint32_t min, uint32_t units);
void scene_pods(struct scene *scene, const char *const *uids, size_t n, const char *gang, uint32_t min,
	uint32_t units);

/* The usual beginning: nodes with a GPU of 10 units, and the gang g of u0, u1 ..., 5 units each, of which
 * min are needed. */
struct scene *scene_gang(struct scene *scene, size_t nodes, size_t members, uint32_t min);

/* A pod that occupies this much of a node's GPU. */
void scene_occupy(struct scene *scene, const char *uid, uint32_t units, const char *node);

/* Changes the template of a pod that exists and shows it again. */
struct pod_facts *scene_facts(struct scene *scene, const char *uid);
void scene_show(struct scene *scene, const char *uid);

/* filter, with all nodes of the ledger, or with one. */
enum gang_answer scene_ask(struct scene *scene, const char *uid);
enum gang_answer scene_ask_for(struct scene *scene, const char *uid, const char *node);

/* bind must wait; scene_ask_and_bind(): filter must name a node first. */
void scene_bind(struct scene *scene, const char *uid, const char *node);
void scene_ask_and_bind(struct scene *scene, const char *uid);
void scene_all_at_bind(struct scene *scene, const char *const *uids, size_t n);

/* Its Binding leaves. */
void scene_sent(struct scene *scene, const char *uid);

/* The API server has bound the pod where it holds its GPU; forming: with the mark. */
void scene_bound(struct scene *scene, const char *uid, bool forming);
/* All of them, without a mark: the gang has started. */
void scene_bound_together(struct scene *scene, const char *const *uids, size_t n);
void scene_delete(struct scene *scene, const char *uid);

/* Time passes, and gangs_look() is asked, then requeue_list_look(). Returns what the first one said. */
int64_t scene_wait(struct scene *scene, int64_t ns);

/* The orders since the last time. */
const char *scene_orders(struct scene *scene);

/* The node where the pod holds a GPU; "" if it does not. */
const char *scene_held(struct scene *scene, const char *uid);

#define scene_test(name) cmocka_unit_test_setup_teardown(name, scene_open, scene_close)
