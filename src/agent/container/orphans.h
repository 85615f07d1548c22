/* orphans.h - CDI files of pods that are no more. */
#pragma once

struct delivery;
struct leftovers;
struct loop;
struct node_registry;
struct orphans;
struct podresources;

/* What the search needs of the other parts. All of it must outlive the search. */
struct orphans_deps {
	struct loop *loop;
	const struct node_registry *node;
	struct delivery *delivery;
	struct leftovers *leftovers; /* told of pods that the API server does not know */
	struct podresources *podresources;
	const char *state_dir, *cdi_dir;
};

/* orphans_new() - looks every 30 s; removes a file when the API server has no such pod and nothing of it
 * runs (leftovers.h), or a finished one that the kubelet does not list either. Nothing is removed before the
 * pods of the node are known. */
int orphans_new(const struct orphans_deps *deps, struct orphans **ret_orphans);
void orphans_free(struct orphans *orphans); /* accepts NULL */
