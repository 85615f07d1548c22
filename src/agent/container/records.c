#include "agent/container/records.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "kube/held.h"
#include "kube/micro-time.h"
#include "model/facts.h"

#define FILE_MAX ((size_t)64 << 10)
#define SUFFIX ".json"

static int record_path(const char *dir, const char *uid, char *buf, size_t size)
{
	/* The uid comes from the API server; it must stay one file name. */
	if (!uid[0] || uid[0] == '.' || strchr(uid, '/'))
		return -EINVAL;
	return (size_t)snprintf(buf, size, "%s/pods/%s" SUFFIX, dir, uid) < size ? 0 : -ENAMETOOLONG;
}

int records_gpus(const struct pod_facts *facts, struct held_pod *pod)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = facts->has_placement ? placement_gpus(&facts->placement, gpus) : 0;
	int r = n ? 0 : -ENOENT;

	/* In equal parts (placement_matches). */
	for (size_t i = 0; r == 0 && i < n; i++)
		r = held_pod_add_gpu(
			pod, gpus[i]->uuid, facts->request.units / (uint32_t)n, facts->request.core);
	if (facts->request.instances)
		pod->instances = facts->request.instances;
	return r;
}

static char *record_text(const struct pod_facts *facts)
{
	_cleanup_held_ struct held held = {.names_ended = false};
	struct held_pod *pod;
	size_t cut;

	micro_time_text(realtime_ns(), held.at);
	if (held_add_pod(&held, facts->uid, facts->namespace_, facts->name, &pod) < 0 ||
		records_gpus(facts, pod) < 0)
		return NULL;
	return held_to_json(&held, FILE_MAX, &cut);
}

void records_replace(const char *dir, const struct pod_facts *facts)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], folder[PATH_MAX];
	int r = record_path(dir, facts->uid, path, sizeof(path));

	if (r < 0 || !facts->has_placement)
		return;
	text = record_text(facts);
	if (!text)
		return;
	snprintf(folder, sizeof(folder), "%s/pods", dir);
	r = fs_mkdir_parents(folder, 0755);
	if (r == 0)
		r = fs_write_atomic(path, 0644, text, strlen(text));
	if (r < 0)
		log_warning(
			"cannot remember what pod %s/%s holds in %s: %s; if the pod is deleted by force while this agent restarts, another pod may get its GPU too early",
			facts->namespace_, facts->name, path, strerror(-r));
}

void records_write(const char *dir, const struct pod_facts *facts)
{
	char path[PATH_MAX];

	if (record_path(dir, facts->uid, path, sizeof(path)) < 0 || access(path, F_OK) == 0)
		return;
	records_replace(dir, facts);
}

void records_remove(const char *dir, const char *uid)
{
	char path[PATH_MAX];

	if (record_path(dir, uid, path, sizeof(path)) == 0)
		unlink(path);
}

static int record_read(const char *path, struct held *held)
{
	_cleanup_held_ struct held one = {.names_ended = false};
	_cleanup_free_ char *text = NULL;
	struct held_pod *pod;
	size_t len;
	int r = fs_read(path, FILE_MAX, &text, &len);

	if (r < 0)
		return r == -EFBIG ? -EINVAL : r;
	r = held_from_json(text, &one, NULL);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < one.n_pods; i++) {
		r = held_add_pod(held, one.pods[i].uid, one.pods[i].namespace_, one.pods[i].name, &pod);
		for (size_t k = 0; r == 0 && k < one.pods[i].n_gpus; k++)
			r = held_pod_add_gpu(pod, one.pods[i].gpus[k].uuid, one.pods[i].gpus[k].units,
				one.pods[i].gpus[k].core);
		if (r == 0)
			pod->instances = one.pods[i].instances;
	}
	return r;
}

void records_read(const char *dir, struct held *ret_held)
{
	char folder[PATH_MAX], path[PATH_MAX];
	DIR *files;

	if ((size_t)snprintf(folder, sizeof(folder), "%s/pods", dir) >= sizeof(folder))
		return;
	files = opendir(folder);
	if (!files)
		return;
	for (struct dirent *entry; (entry = readdir(files));) {
		if (entry->d_name[0] == '.' ||
			(size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= sizeof(path))
			continue;
		if (record_read(path, ret_held) == -EINVAL)
			unlink(path); /* torn or foreign: nothing is known by it */
	}
	closedir(files);
}
