#include "agent/container/delivery-internal.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/cdi.h"
#include "agent/container/records.h"
#include "agent/container/state-mount.h"
#include "base/log.h"
#include "node/registry.h"

#define UID_SIZE 256

static void clear_cdi(const char *cdi_dir)
{
	DIR *dir = opendir(cdi_dir);
	char uid[UID_SIZE];

	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));)
		if (cdi_uid(entry->d_name, uid, sizeof(uid)))
			cdi_remove(cdi_dir, uid);
	closedir(dir);
}

/* Returns whether nothing was in it. */
static bool clear_folder(const char *state_dir, const char *name)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/%s", state_dir, name) < sizeof(path) &&
	       (rmdir(path) == 0 || errno == ENOENT);
}

static void clear_file(const char *state_dir, const char *name)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", state_dir, name) < sizeof(path))
		unlink(path);
}

void delivery_clear(struct delivery *delivery)
{
	const char *state_dir = delivery->deps.state_dir;
	char shim[PATH_MAX];
	bool grants, pods, claims;
	void *value;

	table_for_each (&delivery->deps.node->pods.by_uid, cursor, value) {
		const struct pod_facts *facts = &((struct node_pod *)value)->facts;

		if (!facts->finished)
			continue;
		delivery_remove(delivery, facts->uid);
		records_remove(delivery->deps.state_dir, facts->uid);
	}
	clear_cdi(delivery->deps.cdi_dir);
	grants = clear_folder(state_dir, "grants");
	pods = clear_folder(state_dir, "pods");
	claims = clear_folder(state_dir, "claims");
	if (!grants || !pods || !claims) {
		log_info(
			"this agent was the last one here: CDI files are removed; %s keeps what pods that still run have open",
			state_dir);
		return;
	}
	if ((size_t)snprintf(shim, sizeof(shim), "%s/shim", state_dir) < sizeof(shim) &&
		access(shim, F_OK) == 0)
		state_unmount(shim);
	clear_file(state_dir, "agent-state.json");
	clear_file(state_dir, "agent.lock");
	log_info("this agent was the last one here: CDI files and %s are removed", state_dir);
}
