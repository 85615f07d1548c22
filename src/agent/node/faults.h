/* faults.h - the ConfigMaps that declare GPUs of this node faulty (fault-list.h), and the reports about
 * unhealthy GPUs: they get no new pods, while running pods continue. The agent reads the ConfigMaps, not the
 * scheduler. So the health of a GPU is decided in one place, and the kubelet sees it, too. */
#pragma once

#include <stdbool.h>

struct events;
struct faults;
struct kube_client;
struct loop;
struct node_registry;

/* What the faults need from other parts. All of it must outlive them. */
struct faults_deps {
	struct loop *loop;
	struct kube_client *client;
	struct node_registry *node; /* its GPUs' health is written here */
	const struct events *events;
	bool no_lists; /* the ConfigMaps are not read */
	/* A ConfigMap has changed: call faults_follow(). */
	void (*changed)(void *userdata);
	void *userdata;
};

int faults_new(const struct faults_deps *deps, struct faults **ret_faults);
void faults_free(struct faults *faults); /* accepts NULL */

/* faults_watch() - call it once: begins to read the ConfigMaps. */
int faults_watch(struct faults *faults);

/* faults_settled() - both ConfigMaps were read, or could not be read for so long that the node must continue
 * without them. Before that, the health of the GPUs must not be published, because a faulty GPU could appear
 * healthy. */
bool faults_settled(struct faults *faults);

/* faults_follow() - applies the lists to the present GPUs, and posts an Event for each GPU that has become
 * unhealthy. It is cheap; call it whenever something may have changed. */
void faults_follow(struct faults *faults);
