#include "agent/container/delivery.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/cdi.h"
#include "agent/container/delivery-internal.h"
#include "agent/container/driver-files.h"
#include "agent/container/grants.h"
#include "agent/container/records.h"
#include "agent/container/state-mount.h"
#include "agent/events.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/names.h"
#include "node/answered.h"
#include "node/registry.h"

/* The pod's own at once, the image's when it is known. */
static void report_capability(
	struct delivery *delivery, const struct node_pod *pod, const char *container, bool starting)
{
	const struct container_spec *spec = node_pod_container(pod, container);
	char unknown[64], text[600];

	driver_capabilities(spec ? spec->capabilities : NULL, unknown, sizeof(unknown));
	if (!unknown[0] || spec->capabilities_by_spec == starting)
		return;
	snprintf(text, sizeof(text),
		"container %s sets " ENV_DRIVER_CAPABILITIES
		" with \"%s\" in it, which is not a capability of the driver: use compute, utility, video, graphics, display, ngx or all",
		container, unknown);
	event_on_pod(delivery->deps.events, &pod->facts, "GPUDriverCapabilityUnknown", text);
}

static int make_isolated(struct delivery *delivery, const struct node_pod *pod, const char *container,
	bool starting, struct error *err)
{
	const struct cdi_isolation isolation = {.state_dir = delivery->deps.state_dir,
		.shim_version = delivery->isolation.shim_version,
		.allow_disable = delivery->deps.allow_disable};
	bool asks = node_pod_asks_for_no_limit(pod, container);
	int r = 0;

	delivery_look(delivery);
	if (*delivery->deps.node->problems.isolation)
		return error_set(err, EHOSTDOWN, "pod %s/%s cannot have its GPU: %.400s",
			pod->facts.namespace_, pod->facts.name, delivery->deps.node->problems.isolation);
	if (asks && !delivery->deps.allow_disable && !grants_find(delivery, pod->facts.uid, container)) {
		char text[600];

		snprintf(text, sizeof(text),
			"container %s sets " ENV_CGPU_DISABLE
			", which this cluster does not allow: its GPU memory is limited nevertheless; to allow it, set the chart's value allowDisable to true",
			container);
		event_on_pod(delivery->deps.events, &pod->facts, "GPUDisableIgnored", text);
	}
	if (!asks || !delivery->deps.allow_disable)
		r = grants_prepare(delivery, pod, container, starting, err);
	return r < 0 ? r
		     : cdi_write(delivery->deps.cdi_dir, &delivery->deps.node->inventory,
			       delivery->deps.driver, &delivery->deps.node->served, pod, container,
			       &isolation, err);
}

int delivery_new(const struct delivery_deps *deps, struct delivery **ret_delivery)
{
	struct delivery *delivery = calloc(1, sizeof(*delivery));

	if (!delivery)
		return -ENOMEM;
	delivery->deps = *deps;
	list_init(&delivery->grants);
	*ret_delivery = delivery;
	return 0;
}

void delivery_free(struct delivery *delivery)
{
	if (!delivery)
		return;
	grants_release(delivery);
	free(delivery);
}

size_t delivery_unknown_functions(const struct delivery *delivery)
{
	return delivery->isolation.unknown.count;
}

int delivery_make(struct delivery *delivery, const struct node_pod *pod, const char *container, bool starting,
	struct error *err)
{
	int r = driver_scan(delivery->deps.driver, err);

	if (r < 0)
		return r;
	if (!gpu_mode_is_served(delivery->deps.node->in_force))
		return error_set(err, EBUSY,
			"pod %s/%s: the agent has just started and does not know yet in which mode this node is",
			pod->facts.namespace_, pod->facts.name);
	report_capability(delivery, pod, container, starting);
	if (gpu_mode_is_isolated(delivery->deps.node->in_force))
		return make_isolated(delivery, pod, container, starting, err);
	return cdi_write(delivery->deps.cdi_dir, &delivery->deps.node->inventory, delivery->deps.driver,
		&delivery->deps.node->served, pod, container, NULL, err);
}

const char *delivery_device(const char *name, char *buf, size_t size)
{
	snprintf(buf, size, CDI_KIND "=%s", name);
	return buf;
}

const char *delivery_device_name(const char *device)
{
	static const char prefix[] = CDI_KIND "=";

	return strncmp(device, prefix, strlen(prefix)) == 0 ? device + strlen(prefix) : NULL;
}

int delivery_free_name(struct delivery *delivery, const char *name, struct error *err)
{
	char uid[ANSWERED_NAME_SIZE];

	return answered_uid(name, uid, sizeof(uid))
		       ? cdi_remove_device(delivery->deps.cdi_dir, uid, name, err)
		       : 0;
}

bool delivery_has_file(const struct delivery *delivery, const char *uid)
{
	return cdi_exists(delivery->deps.cdi_dir, uid);
}

bool delivery_exists(const struct delivery *delivery, const char *uid, const char *container)
{
	return delivery_has_file(delivery, uid) &&
	       (!gpu_mode_is_isolated(delivery->deps.node->in_force) || delivery->deps.allow_disable ||
		       grants_find(delivery, uid, container));
}

void delivery_remove(struct delivery *delivery, const char *uid)
{
	/* In this order: a container that is started in between finds no device, rather than no grant. */
	cdi_remove(delivery->deps.cdi_dir, uid);
	grants_remove(delivery, uid);
	delivery_remove_shims(delivery);
}

void delivery_remove_shims(struct delivery *delivery)
{
	/* Somebody may have cleared the folder of CDI files: what such a pod has is not known then. */
	list_for_each (item, &delivery->grants)
		if (!cdi_exists(delivery->deps.cdi_dir, list_entry(item, struct node_grant, item)->uid))
			return;
	shim_remove_old(delivery->deps.state_dir, delivery->isolation.shim_version, delivery->deps.cdi_dir);
}

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
