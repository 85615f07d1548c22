#include "agent/container/orphans.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/cdi.h"
#include "agent/container/delivery.h"
#include "agent/container/leftovers.h"
#include "agent/kubelet/podresources.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"
#include "node/claims.h"
#include "node/registry.h"

#define FIRST_NS (5 * NS_PER_S) /* what ended while no agent was there */
#define EVERY_NS (30 * NS_PER_S)
#define UID_SIZE 256

struct orphans {
	struct orphans_deps deps;
	struct loop_timer *timer;
	struct podresources_call *call;
};

static bool is_listed(const struct listing *listing, const struct pod_facts *pod)
{
	for (size_t i = 0; i < listing->n_pods; i++)
		if (strcmp(listing->pods[i].namespace_, pod->namespace_) == 0 &&
			strcmp(listing->pods[i].name, pod->name) == 0)
			return true;
	return false;
}

/* What the API server does not know may run all the same. */
static void orphan_look(const struct orphans_deps *deps, const struct listing *listing, const char *uid)
{
	const struct node_pod *pod = node_pods_by_uid(&deps->node->pods, uid);

	/* The files of a claim go when the kubelet unprepares it. */
	if (node_claims_by_uid(deps->node, uid))
		return;
	if (!pod) {
		leftovers_examine(deps->leftovers, uid);
	} else if (pod->facts.finished && !is_listed(listing, &pod->facts)) {
		log_debug("pod with uid %s is over: removing its files", uid);
		delivery_remove(deps->delivery, uid);
	}
}

static void orphans_look_at_cdi(const struct orphans_deps *deps, const struct listing *listing)
{
	DIR *dir = opendir(deps->cdi_dir);
	char uid[UID_SIZE];

	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (cdi_uid(entry->d_name, uid, sizeof(uid)))
			orphan_look(deps, listing, uid);
		else if (cdi_is_partial(entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
}

/* Of those that have no CDI file: an agent may be killed at any time. */
static void orphans_look_at_grants(const struct orphans_deps *deps, const struct listing *listing)
{
	char path[PATH_MAX];
	DIR *dir = NULL;

	if ((size_t)snprintf(path, sizeof(path), "%s/grants", deps->state_dir) < sizeof(path))
		dir = opendir(path);
	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.' && !cdi_exists(deps->cdi_dir, entry->d_name))
			orphan_look(deps, listing, entry->d_name);
	closedir(dir);
}

static void on_listing(void *userdata, struct listing *listing, const char *text)
{
	struct orphans *orphans = userdata;

	orphans->call = NULL;
	if (!listing)
		return;
	if (orphans->deps.node->pods_listed) {
		orphans_look_at_cdi(&orphans->deps, listing);
		orphans_look_at_grants(&orphans->deps, listing);
		delivery_remove_shims(orphans->deps.delivery);
	}
	listing_release(listing);
	free(listing);
}

static void on_timer(void *userdata)
{
	struct orphans *orphans = userdata;

	loop_timer_set(orphans->timer, EVERY_NS);
	if (!orphans->call && orphans->deps.node->pods_listed)
		podresources_list(orphans->deps.podresources, on_listing, orphans, &orphans->call);
}

int orphans_new(const struct orphans_deps *deps, struct orphans **ret_orphans)
{
	struct orphans *orphans = calloc(1, sizeof(*orphans));
	int r;

	if (!orphans)
		return -ENOMEM;
	orphans->deps = *deps;
	r = loop_add_timer(deps->loop, on_timer, orphans, &orphans->timer);
	if (r < 0) {
		free(orphans);
		return r;
	}
	loop_timer_set(orphans->timer, FIRST_NS);
	*ret_orphans = orphans;
	return 0;
}

void orphans_free(struct orphans *orphans)
{
	if (!orphans)
		return;
	podresources_cancel(orphans->call);
	loop_timer_remove(orphans->timer);
	free(orphans);
}
