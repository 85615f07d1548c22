#include "agent/container/grants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container/cdi.h"
#include "agent/container/delivery-internal.h"
#include "agent/container/state-mount.h"
#include "agent/events.h"
#include "agent/gpu/looks.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "grant/grant.h"
#include "grant/usage.h"
#include "model/units.h"
#include "node/registry.h"

#define MIB (UINT64_C(1) << 20)

static void node_grant_free(struct node_grant *g)
{
	list_remove(&g->item);
	grant_file_unmap(g->grant);
	if (g->usage_fd >= 0)
		close(g->usage_fd);
	if (g->use_fd >= 0)
		close(g->use_fd);
	free(g->uid);
	free(g->container);
	free(g->namespace_);
	free(g->pod);
	free(g->folder);
	free(g);
}

struct node_grant *grants_find(const struct delivery *delivery, const char *uid, const char *container)
{
	list_for_each (item, &delivery->grants) {
		struct node_grant *g = list_entry(item, struct node_grant, item);

		if (strcmp(g->uid, uid) == 0 && strcmp(g->container, container) == 0)
			return g;
	}
	return NULL;
}

/* What the grant says of its owner: "namespace/pod/container". */
static int node_grant_name(struct node_grant *g)
{
	_cleanup_free_ char *text = strndup(g->grant->container, sizeof(g->grant->container));
	char *rest = text, *namespace_ = strsep(&rest, "/"), *pod = rest ? strsep(&rest, "/") : NULL;

	g->namespace_ = strdup(pod ? namespace_ : "?");
	g->pod = strdup(pod ? pod : "?");
	return text && g->namespace_ && g->pod ? 0 : -ENOMEM;
}

static int path_in(const struct node_grant *g, const char *file, char *buf, size_t size)
{
	return (size_t)snprintf(buf, size, "%s/%s", g->folder, file) < size ? 0 : -ENAMETOOLONG;
}

static int node_grant_open_usage(struct node_grant *g, const char **ret_why)
{
	char path[PATH_MAX];
	int r = path_in(g, USAGE_FILE_NAME, path, sizeof(path));
	/* O_NONBLOCK: should it be a pipe. */
	int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	/* It is read thousands of times a second: a seventh of that was the time of access (perf). */
	int fd = r < 0 ? r : open(path, flags | O_NOATIME);

	if (fd == -1 && errno == EPERM) /* another user's */
		fd = open(path, flags);
	if (fd < 0) {
		*ret_why = "its usage file cannot be opened";
		return r < 0 ? r : -errno;
	}
	if (g->usage_fd >= 0)
		close(g->usage_fd);
	g->usage_fd = fd;
	return 0;
}

static int node_grant_map(struct node_grant *g, const char **ret_why)
{
	struct grant_file *grant;
	char path[PATH_MAX];
	int r = path_in(g, GRANTS_GRANT_FILE, path, sizeof(path));

	if (r < 0) {
		*ret_why = "its name is too long";
		return r;
	}
	r = grant_file_map_keeper(path, &grant, ret_why);
	if (r < 0)
		return r;
	grant_file_unmap(g->grant);
	g->grant = grant;
	return 0;
}

static struct node_grant *node_grant_new(const char *state_dir, const char *uid, const char *container)
{
	struct node_grant *g = calloc(1, sizeof(*g));
	char folder[PATH_MAX];

	if (!g)
		return NULL;
	g->usage_fd = g->use_fd = -1;
	g->uid = strdup(uid);
	g->container = strdup(container);
	if (grants_folder_path(state_dir, uid, container, "", folder, sizeof(folder)) == 0)
		g->folder = strdup(folder);
	if (g->uid && g->container && g->folder)
		return g;
	node_grant_free(g);
	return NULL;
}

/* Pages of the grant that the agent has read count as memory of the agent until they are dropped. The kernel
 * maps the pages around them, too, so all pages are dropped. Each second the agent writes to one page, which
 * maps no other page. */
static void forget_pages(const struct node_grant *g)
{
	if (g->grant)
		madvise(g->grant, sizeof(*g->grant), MADV_DONTNEED);
}

/* Takes over what is in the folder, or nothing. */
static int grants_take_over(
	struct delivery *delivery, const char *uid, const char *container, const char **ret_why)
{
	struct node_grant *g = node_grant_new(delivery->deps.state_dir, uid, container);
	int r;

	*ret_why = "out of memory";
	if (!g)
		return -ENOMEM;
	r = node_grant_map(g, ret_why);
	if (r == 0)
		r = node_grant_open_usage(g, ret_why);
	if (r == 0)
		r = node_grant_name(g);
	if (r == 0) {
		char path[PATH_MAX];

		/* The pod's tmpfs may be full, because its containers can let their usage files grow. */
		if (path_in(g, WATCHED_USE_FILE, path, sizeof(path)) == 0)
			g->use_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
		if (g->use_fd < 0)
			log_warning(
				"%s cannot be opened: %s; `ration advise` forgets the peak when the agent restarts",
				path, strerror(errno));
	}
	if (r == 0) {
		const struct watched_grant watched = {.uid = g->uid,
			.namespace_ = g->namespace_,
			.pod = g->pod,
			.container = g->container,
			.grant = g->grant,
			.usage_fd = g->usage_fd,
			.use_fd = g->use_fd};
		r = looks_add(delivery->deps.looks, &watched);
	}
	forget_pages(g);
	if (r < 0)
		node_grant_free(g);
	else
		list_append(&delivery->grants, &g->item);
	return r;
}

static void grants_drop(struct delivery *delivery, struct node_grant *g)
{
	looks_remove(delivery->deps.looks, g->uid, g->container);
	node_grant_free(g);
}

/* What the file is to say, live words included. */
static int grant_fill(const struct delivery *delivery, const struct pod_facts *pod,
	const struct container_placement *placed, struct grant_file *grant, struct error *err)
{
	snprintf(grant->container, sizeof(grant->container), "%s/%s/%s", pod->namespace_, pod->name,
		placed->name);
	snprintf(grant->cuda_library, sizeof(grant->cuda_library), "%s", cdi_private_library(DRIVER_CUDA));
	snprintf(grant->nvml_library, sizeof(grant->nvml_library), "%s", cdi_private_library(DRIVER_NVML));
	/* In the order of their indices, as the driver numbers what it sees. */
	for (size_t i = 0; i < delivery->deps.node->inventory.n_gpus; i++) {
		const struct gpu *gpu = &delivery->deps.node->inventory.gpus[i];
		struct grant_file_gpu *granted = &grant->gpus[grant->gpu_count];

		for (size_t k = 0; k < placed->n_gpus; k++) {
			if (strcmp(placed->gpus[k].uuid, gpu->facts.uuid) != 0)
				continue;
			snprintf(granted->uuid, sizeof(granted->uuid), "%s", gpu->facts.uuid);
			snprintf(granted->pci_bus_id, sizeof(granted->pci_bus_id), "%s", gpu->bus_id);
			granted->physical_bytes = gpu->facts.mib * MIB;
			granted->limit_bytes = units_limit_bytes(
				gpu->facts.mib, placed->gpus[k].units, pod->placement.unit_mib);
			grant->gpu_count++;
			break;
		}
	}
	if (grant->gpu_count == placed->n_gpus && grant->gpu_count)
		return 0;
	return error_set(err, ENOENT, "pod %s/%s: a GPU of container %s is not on this node (any more)",
		pod->namespace_, pod->name, placed->name);
}

/* The limits may differ: they have been changed since. */
static bool says_the_same(const struct grant_file *a, const struct grant_file *b)
{
	if (a->gpu_count != b->gpu_count || strcmp(a->cuda_library, b->cuda_library) != 0 ||
		strcmp(a->nvml_library, b->nvml_library) != 0)
		return false;
	for (unsigned int i = 0; i < a->gpu_count; i++)
		if (strcmp(a->gpus[i].uuid, b->gpus[i].uuid) != 0 ||
			a->gpus[i].physical_bytes != b->gpus[i].physical_bytes)
			return false;
	return true;
}

/* A user may have cleared the folder while the agent had its files open: then no container sees the files
 * that the agent has mapped. */
static bool is_in_place(const struct node_grant *g)
{
	char grant[PATH_MAX], usage[PATH_MAX];
	struct stat ours, there;

	return path_in(g, GRANTS_GRANT_FILE, grant, sizeof(grant)) == 0 &&
	       path_in(g, USAGE_FILE_NAME, usage, sizeof(usage)) == 0 && access(grant, F_OK) == 0 &&
	       stat(usage, &there) == 0 && fstat(g->usage_fd, &ours) == 0 && there.st_dev == ours.st_dev &&
	       there.st_ino == ours.st_ino;
}

static bool usage_is_whole(const struct node_grant *g)
{
	uint64_t bytes[GRANT_FILE_GPUS_MAX];

	return usage_file_read(g->usage_fd, g->grant->gpu_count, bytes) == 0;
}

/* The usage file is written first, because a grant without a usage file is not valid. */
static int grant_write(const char *folder, struct grant_file *grant, struct error *err)
{
	char path[PATH_MAX];
	const char *why = "its name is too long";
	int r = -ENAMETOOLONG;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, USAGE_FILE_NAME) < sizeof(path))
		r = usage_file_create(path, grant->gpu_count, &why);
	if (r == 0 && (size_t)snprintf(path, sizeof(path), "%s/%s", folder, GRANTS_GRANT_FILE) < sizeof(path))
		r = grant_file_write(path, grant, &why);
	return r < 0 ? error_set(err, -r, "%s: %s: %s", path, why, strerror(-r)) : 0;
}

static int grant_make(struct delivery *delivery, const struct pod_facts *pod, const char *container,
	struct grant_file *wanted, struct error *err)
{
	struct node_grant *g = grants_find(delivery, pod->uid, container);
	char folder[PATH_MAX];
	const char *why;
	int r = grants_folder_make(
		delivery->deps.state_dir, pod->uid, pod->placement.n_containers, container, err);

	if (r == 0)
		r = grants_folder_path(
			delivery->deps.state_dir, pod->uid, container, "", folder, sizeof(folder));
	if (r == 0)
		r = grant_write(folder, wanted, err);
	if (r < 0)
		return r;
	if (g)
		grants_drop(delivery, g);
	r = grants_take_over(delivery, pod->uid, container, &why);
	return r < 0 ? error_set(err, -r, "the new grant in %s: %s", folder, why) : 0;
}

/* Whether the container's present grant can be used. -ESTALE with a sentence: it must be replaced. -ENOENT:
 * the container has no grant. */
static int grant_check(struct delivery *delivery, const struct pod_facts *pod, const char *container,
	const struct grant_file *wanted, struct error *err)
{
	struct node_grant *g = grants_find(delivery, pod->uid, container);
	const char *why = NULL;
	int r = 0;

	if (!g)
		r = grants_take_over(delivery, pod->uid, container, &why);
	if (r == -ENOENT)
		return -ENOENT;
	g = grants_find(delivery, pod->uid, container);
	if (g && !says_the_same(g->grant, wanted))
		why = "it is for other GPUs";
	else if (g && !is_in_place(g))
		why = "its files were removed";
	else if (g && !usage_is_whole(g))
		why = "its usage file is damaged";
	else if (g)
		return 0;
	return error_set(err, ESTALE,
		"the GPU grant of container %s of pod %s/%s cannot be used: %s; the agent replaces it when the container is started again",
		container, pod->namespace_, pod->name, why);
}

int grants_prepare(struct delivery *delivery, const struct node_pod *pod, const char *container,
	bool starting, struct error *err)
{
	const struct pod_facts *facts = &pod->facts;
	const struct container_placement *placed = placement_find(&facts->placement, container);
	_cleanup_free_ struct grant_file *wanted = calloc(1, sizeof(*wanted));
	int r;

	if (!wanted || !placed)
		return error_set(err, wanted ? ENOENT : ENOMEM, "no grant for container %s of pod %s/%s: %s",
			container, facts->namespace_, facts->name,
			wanted ? "its pod has no placement for it" : "out of memory");
	r = grant_fill(delivery, facts, placed, wanted, err);
	if (r < 0)
		return r;
	r = grant_check(delivery, facts, container, wanted, err);
	if (r == -ESTALE && starting)
		log_warning("%s", err->text);
	if (r == -ENOENT || (r == -ESTALE && starting))
		r = grant_make(delivery, facts, container, wanted, err);
	/* A new size is given by delivery_follow_sizes() alone, which asks whether the GPU has it. */
	if (r == 0 && pod->size.applied == facts->placement.resizes)
		grants_apply_placement(delivery, facts);
	if (r == 0)
		delivery->deps.grants_changed(delivery->deps.userdata);
	return r;
}

static void set_limits(struct node_grant *g, const struct pod_facts *pod,
	const struct container_placement *placed, bool only_less)
{
	for (unsigned int i = 0; i < g->grant->gpu_count; i++) {
		const struct grant_file_gpu *gpu = &g->grant->gpus[i];

		for (size_t k = 0; k < placed->n_gpus; k++) {
			uint64_t bytes = units_limit_bytes(
				gpu->physical_bytes / MIB, placed->gpus[k].units, pod->placement.unit_mib);

			if (strcmp(placed->gpus[k].uuid, gpu->uuid) != 0 ||
				grant_file_limit_bytes(g->grant, i) == bytes ||
				(only_less && grant_file_limit_bytes(g->grant, i) < bytes))
				continue;
			log_info("pod %s/%s container %s: the limit on GPU %s is %" PRIu64 " MiB now",
				pod->namespace_, pod->name, g->container, gpu->uuid, bytes / MIB);
			grant_file_set_limit(g->grant, i, bytes);
		}
	}
	forget_pages(g);
}

static void apply_placement(struct delivery *delivery, const struct pod_facts *pod, bool only_less)
{
	list_for_each (item, &delivery->grants) {
		struct node_grant *g = list_entry(item, struct node_grant, item);
		const struct container_placement *placed = pod->has_placement && strcmp(g->uid, pod->uid) == 0
								   ? placement_find(
									     &pod->placement, g->container)
								   : NULL;

		if (placed)
			set_limits(g, pod, placed, only_less);
	}
}

void grants_apply_placement(struct delivery *delivery, const struct pod_facts *pod)
{
	apply_placement(delivery, pod, false);
}

void grants_apply_what_is_less(struct delivery *delivery, const struct pod_facts *pod)
{
	apply_placement(delivery, pod, true);
}

void grants_remove(struct delivery *delivery, const char *uid)
{
	list_for_each_safe (item, after, &delivery->grants) {
		struct node_grant *g = list_entry(item, struct node_grant, item);

		if (strcmp(g->uid, uid) == 0)
			grants_drop(delivery, g);
	}
	delivery->deps.grants_changed(delivery->deps.userdata);
	grants_folder_remove(delivery->deps.state_dir, uid);
}

static void resume_pod(struct delivery *delivery, const char *uid)
{
	char folder[PATH_MAX], text[512];
	const char *why;
	DIR *containers = NULL;

	if (grants_folder_path(delivery->deps.state_dir, uid, "", "", folder, sizeof(folder)) == 0)
		containers = state_is_mounted(folder) ? opendir(folder) : NULL;
	if (!containers)
		return;
	for (struct dirent *entry; (entry = readdir(containers));) {
		int r = grants_folder_path(
			delivery->deps.state_dir, uid, entry->d_name, "", folder, sizeof(folder));

		if (r < 0)
			continue; /* "." and "..", and what no container is called */
		r = grants_take_over(delivery, uid, entry->d_name, &why);
		if (r == 0 || r == -ENOENT)
			continue; /* -ENOENT: the agent before us did not come to write it */
		snprintf(text, sizeof(text),
			"the GPU grant of container %.80s of the pod with uid %.80s cannot be used: %s; the agent replaces it when the container is started again",
			entry->d_name, uid, why);
		event_on_node(delivery->deps.events, "GPUGrantDamaged", text);
	}
	closedir(containers);
}

void delivery_resume(struct delivery *delivery)
{
	char folder[PATH_MAX];
	DIR *pods = NULL;

	if ((size_t)snprintf(folder, sizeof(folder), "%s/grants", delivery->deps.state_dir) < sizeof(folder))
		pods = opendir(folder);
	if (!pods)
		return;
	for (struct dirent *entry; (entry = readdir(pods));)
		resume_pod(delivery, entry->d_name);
	closedir(pods);
}

void grants_release(struct delivery *delivery)
{
	while (!list_empty(&delivery->grants))
		grants_drop(delivery, list_entry(delivery->grants.next, struct node_grant, item));
}
