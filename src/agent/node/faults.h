/* faults.h - the ConfigMaps that declare GPUs of this node faulty (fault-list.h), and what is told of sick
 * GPUs: no new pods on them, while what runs there goes on. Why the agent reads them and not the scheduler:
 * whose word on a GPU counts, is then one place, and everybody sees it, the kubelet too. */
#pragma once

#include <stdbool.h>

struct events;
struct faults;
struct kube_client;
struct loop;
struct node_registry;

/* What the faults need of the other parts. All of it must outlive them. */
struct faults_deps {
	struct loop *loop;
	struct kube_client *client;
	struct node_registry *node; /* its GPUs' health is written here */
	const struct events *events;
	bool no_lists; /* the ConfigMaps are not read */
	/* A ConfigMap says something else now: faults_follow() is to be called. */
	void (*changed)(void *userdata);
	void *userdata;
};

int faults_new(const struct faults_deps *deps, struct faults **ret_faults);
void faults_free(struct faults *faults); /* accepts NULL */

/* faults_watch() - once: begin to read the ConfigMaps. */
int faults_watch(struct faults *faults);

/* faults_settled() - both ConfigMaps were read, or could not be for so long that the node must go on without
 * them. Before, nothing may be said of the GPUs to others: it could be that they are well. */
bool faults_settled(struct faults *faults);

/* faults_follow() - the lists' word on the GPUs that there are now, and an Event for each GPU that is sick
 * since. Cheap; call it whenever something may have changed. */
void faults_follow(struct faults *faults);
