#include "agent/gpu/watchdog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/events.h"
#include "agent/gpu/looks.h"
#include "agent/gpu/processes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "grant/grant.h"
#include "kube/eviction.h"
#include "node/claims.h"
#include "node/registry.h"

#define CONFIRM_NS (4 * NS_PER_S) /* longer than the end of a process or the writing of a grant takes */
#define AGAIN_NS (600 * NS_PER_S) /* a bypass that goes on is reported again after this time */
#define EVICT_AGAIN_NS (30 * NS_PER_S)
#define OFFENCES_MAX 256
#define OFFENCES_OF_POD_MAX 8 /* so that one pod cannot fill OFFENCES_MAX */
#define MIB (UINT64_C(1) << 20)

enum bypass { BYPASS_NO_GRANT, BYPASS_OVER_LIMIT, BYPASS_MAX };

static const char *const bypass_texts[BYPASS_MAX] = {
	[BYPASS_NO_GRANT] = "no_grant", [BYPASS_OVER_LIMIT] = "over_limit"};

enum evicted { EVICTED_ACCEPTED, EVICTED_REFUSED, EVICTED_FAILED, EVICTED_MAX };

static const char *const evicted_texts[EVICTED_MAX] = {
	[EVICTED_ACCEPTED] = "accepted", [EVICTED_REFUSED] = "refused", [EVICTED_FAILED] = "failed"};

/* A bypass that goes on: a process without a grant, or a container over its limit. */
struct offence {
	struct list item;
	enum bypass kind;
	char gpu[GPU_UUID_SIZE];
	pid_t pid;
	uint64_t start_ticks;
	char uid[CGROUP_UID_SIZE];  /* its pod's, or its claim's; "": it is in no pod */
	char user[CGROUP_UID_SIZE]; /* the pod whose processes hold most of its memory; "": not known */
	char *container;	    /* NULL: not known */
	uint64_t bytes, limit_bytes;
	int64_t since_ns, seen_ns, told_ns, evict_ns;
	bool confirmed;
};

struct eviction {
	struct list item;
	struct watchdog *watchdog;
	char uid[CGROUP_UID_SIZE]; /* the pod's */
};

struct watchdog {
	struct watchdog_deps deps;
	struct list offences, evictions;
	size_t n_offences;
	struct event_rate rate;
	uint64_t found[BYPASS_MAX], evicted[EVICTED_MAX];
};

static void offence_free(struct watchdog *watchdog, struct offence *offence)
{
	list_remove(&offence->item);
	watchdog->n_offences--;
	free(offence->container);
	free(offence);
}

/* ---- what people are told -------------------------------------------------------------------------------
 */

static const struct node_pod *pod_of(const struct watchdog *watchdog, const struct offence *offence)
{
	const struct node_registry *node = watchdog->deps.node;
	const struct node_pod *user = offence->user[0] ? node_pods_by_uid(&node->pods, offence->user) : NULL;

	return user ? user : offence->uid[0] ? node_claims_reader(node, offence->uid) : NULL;
}

static void offence_text(
	const struct watchdog *watchdog, const struct offence *offence, char *buf, size_t size)
{
	const struct gpu *known = inventory_find(&watchdog->deps.node->inventory, offence->gpu);
	const struct node_pod *pod = pod_of(watchdog, offence);
	char gpu[GPU_UUID_SIZE + 32], name[PROCESS_NAME_SIZE], whose[400] = "of no pod";
	char owner[NODE_CLAIM_TEXT_SIZE];

	snprintf(gpu, sizeof(gpu), "GPU %d (%s)", known ? known->facts.index : -1, offence->gpu);
	if (offence->kind == BYPASS_OVER_LIMIT) {
		node_claims_describe(watchdog->deps.node, offence->uid, offence->container, owner);
		snprintf(buf, size,
			"%s uses %" PRIu64 " MiB of %s, over its limit of %" PRIu64
			" MiB: memory that its processes took past the limit, or more contexts than fit into it",
			owner, offence->bytes / MIB, gpu, offence->limit_bytes / MIB);
		return;
	}
	looks_process_name(watchdog->deps.looks, offence->pid, name);
	if (offence->uid[0])
		snprintf(whose, sizeof(whose), "of container %.100s of %s %.200s",
			offence->container ? offence->container : "(unknown)",
			pod ? "pod" : "the pod with uid", pod ? pod->facts.name : offence->uid);
	snprintf(buf, size,
		"process %d (%s) %s uses %" PRIu64
		" MiB of %s, and has no grant for it: no limit applies to it, and containers with a grant may find the GPU full",
		(int)offence->pid, name, whose, offence->bytes / MIB, gpu);
}

static void offence_tell(struct watchdog *watchdog, struct offence *offence, int64_t now)
{
	const struct node_pod *pod = pod_of(watchdog, offence);
	const char *reason = offence->kind == BYPASS_OVER_LIMIT ? "GPUOverLimit" : "GPUWithoutGrant";
	char text[900];

	if (offence->told_ns && now - offence->told_ns < AGAIN_NS)
		return;
	if (!event_rate_take(&watchdog->rate, now))
		return;
	offence->told_ns = now;
	offence_text(watchdog, offence, text, sizeof(text));
	if (pod)
		event_on_pod(watchdog->deps.events, &pod->facts, reason, text);
	else
		event_on_node(watchdog->deps.events, reason, text);
}

/* ---- eviction -------------------------------------------------------------------------------------------
 */

static void on_evicted(void *userdata, const struct kube_response *response)
{
	struct eviction *eviction = userdata;
	struct watchdog *watchdog = eviction->watchdog;
	struct error why = {""};

	if (eviction_was_accepted(response, &why)) {
		watchdog->evicted[EVICTED_ACCEPTED]++;
		log_warning("the pod with uid %s is evicted: it used a GPU past its limit", eviction->uid);
	} else if (response->result == 0 && response->status < 500) {
		watchdog->evicted[EVICTED_REFUSED]++;
		log_warning("the pod with uid %s is not evicted, trying again: %s", eviction->uid, why.text);
	} else {
		watchdog->evicted[EVICTED_FAILED]++;
		log_warning("cannot evict the pod with uid %s, trying again: %s", eviction->uid, why.text);
	}
	list_remove(&eviction->item);
	free(eviction);
}

static bool is_being_evicted(const struct watchdog *watchdog, const char *uid)
{
	list_for_each (item, &watchdog->evictions)
		if (strcmp(list_entry(item, struct eviction, item)->uid, uid) == 0)
			return true;
	return false;
}

static void offence_evict(struct watchdog *watchdog, struct offence *offence, int64_t now)
{
	const struct node_pod *pod = pod_of(watchdog, offence);
	struct eviction *eviction;

	if (watchdog->deps.on_bypass != BYPASS_EVICT || !pod || pod->facts.mirror || pod->facts.deleting ||
		!watchdog->deps.client)
		return;
	if ((offence->evict_ns && now - offence->evict_ns < EVICT_AGAIN_NS) ||
		is_being_evicted(watchdog, pod->facts.uid))
		return;
	eviction = calloc(1, sizeof(*eviction));
	if (!eviction)
		return;
	offence->evict_ns = now;
	eviction->watchdog = watchdog;
	snprintf(eviction->uid, sizeof(eviction->uid), "%s", pod->facts.uid);
	list_append(&watchdog->evictions, &eviction->item);
	if (eviction_request(watchdog->deps.client, pod->facts.namespace_, pod->facts.name, pod->facts.uid,
		    on_evicted, eviction) == 0)
		return;
	list_remove(&eviction->item);
	free(eviction);
}

/* ---- what is seen ---------------------------------------------------------------------------------------
 */

static bool is_same(const struct offence *a, const struct offence *b)
{
	if (a->kind != b->kind || strcmp(a->gpu, b->gpu) != 0 || strcmp(a->uid, b->uid) != 0)
		return false;
	if (a->kind == BYPASS_NO_GRANT)
		return a->pid == b->pid && a->start_ticks == b->start_ticks;
	return strcmp(a->container, b->container) == 0;
}

static struct offence *offence_add(
	struct watchdog *watchdog, const struct offence *seen, const char *container)
{
	struct offence *offence = watchdog->n_offences < OFFENCES_MAX ? malloc(sizeof(*offence)) : NULL;

	if (!offence)
		return NULL;
	*offence = *seen;
	offence->container = container ? strdup(container) : NULL;
	if (container && !offence->container) {
		free(offence);
		return NULL;
	}
	offence->since_ns = seen->seen_ns;
	list_append(&watchdog->offences, &offence->item);
	watchdog->n_offences++;
	return offence;
}

static void offence_see(struct watchdog *watchdog, struct offence *seen, const char *container)
{
	struct offence *offence = NULL;
	size_t of_pod = 0;

	seen->container = (char *)container;
	list_for_each (item, &watchdog->offences) {
		struct offence *known = list_entry(item, struct offence, item);

		of_pod += seen->uid[0] && strcmp(known->uid, seen->uid) == 0;
		if (is_same(known, seen))
			offence = known;
	}
	if (!offence && of_pod < OFFENCES_OF_POD_MAX)
		offence = offence_add(watchdog, seen, container);
	if (!offence)
		return;
	offence->seen_ns = seen->seen_ns;
	offence->bytes = seen->bytes;
	offence->limit_bytes = seen->limit_bytes;
	memcpy(offence->user, seen->user, sizeof(offence->user));
	if (seen->seen_ns - offence->since_ns < CONFIRM_NS)
		return;
	if (!offence->confirmed)
		watchdog->found[offence->kind]++;
	offence->confirmed = true;
	offence_tell(watchdog, offence, seen->seen_ns);
	offence_evict(watchdog, offence, seen->seen_ns);
}

/* Whether the container was given the GPU without a limit. */
static bool may_have_all(const struct watchdog *watchdog, const char *uid, const char *container)
{
	const struct node_pod *pod = node_pods_by_uid(&watchdog->deps.node->pods, uid);

	return pod && watchdog->deps.allow_disable && node_pod_asks_for_no_limit(pod, container);
}

static void look_at_holder(
	struct watchdog *watchdog, const char *uuid, const struct holder *holder, int64_t now)
{
	struct offence seen = {.kind = BYPASS_NO_GRANT, .bytes = holder->bytes, .seen_ns = now};
	const struct process *process = holder->process;

	if (!process || !holder->certain || !holder->bytes || process->pid == getpid() ||
		(holder->watched && watched_part(holder->watched, uuid)))
		return;
	seen.pid = process->pid;
	seen.start_ticks = process->owner.start_ticks;
	snprintf(seen.gpu, sizeof(seen.gpu), "%s", uuid);
	if (process->verdict == 0)
		memcpy(seen.uid, process->place.uid, sizeof(seen.uid));
	if (holder->container && may_have_all(watchdog, seen.uid, holder->container))
		return;
	offence_see(watchdog, &seen, holder->container);
}

static bool is_of_pod(const struct holder *holder, const struct watched *watched, const char *uid)
{
	return holder->watched == watched && holder->process && holder->process->verdict == 0 &&
	       (!uid || strcmp(holder->process->place.uid, uid) == 0);
}

/* Several pods may use one claim. Writes the uid of the pod whose processes hold most of its memory. */
static void largest_user(
	const struct watched *watched, const struct holder *holders, size_t n_holders, char *ret_uid)
{
	uint64_t most = 0;

	for (size_t i = 0; i < n_holders; i++) {
		uint64_t bytes = 0;

		if (!is_of_pod(&holders[i], watched, NULL))
			continue;
		for (size_t k = 0; k < n_holders; k++)
			if (is_of_pod(&holders[k], watched, holders[i].process->place.uid))
				bytes += holders[k].bytes;
		if (bytes <= most)
			continue;
		most = bytes;
		memcpy(ret_uid, holders[i].process->place.uid, CGROUP_UID_SIZE);
	}
}

static void look_at_container(struct watchdog *watchdog, const char *uuid, struct watched_part *gpu,
	const struct holder *holders, size_t n_holders, int64_t now)
{
	const struct watched *watched = gpu->of;
	struct offence seen = {.kind = BYPASS_OVER_LIMIT, .seen_ns = now};

	seen.bytes = gpu->used_bytes;
	seen.limit_bytes = grant_file_limit_bytes(watched->grant, gpu->index);
	gpu->allowed_bytes = watchdog_allowed(gpu->allowed_bytes, seen.bytes, seen.limit_bytes,
		atomic_load(&watched->grant->live[gpu->index].largest_limit_bytes));
	if (!watchdog_is_over(seen.bytes, gpu->allowed_bytes))
		return;
	snprintf(seen.gpu, sizeof(seen.gpu), "%s", uuid);
	snprintf(seen.uid, sizeof(seen.uid), "%s", watched->uid);
	largest_user(watched, holders, n_holders, seen.user);
	offence_see(watchdog, &seen, watched->container);
}

void watchdog_judge(
	struct watchdog *watchdog, const char *uuid, const struct holder *holders, size_t n_holders)
{
	const struct node_registry *node = watchdog->deps.node;
	int64_t now = monotonic_ns();

	/* Until the pods are known, a process cannot be told from one without a grant. */
	if (!gpu_mode_is_isolated(node->in_force) || !node->pods_listed)
		return;
	for (size_t i = 0; i < n_holders; i++)
		look_at_holder(watchdog, uuid, &holders[i], now);
	list_for_each (item, watched_on(looks_set(watchdog->deps.looks), uuid))
		look_at_container(
			watchdog, uuid, list_entry(item, struct watched_part, item), holders, n_holders, now);
	list_for_each_safe (item, after, &watchdog->offences) {
		struct offence *offence = list_entry(item, struct offence, item);

		if (strcmp(offence->gpu, uuid) == 0 && offence->seen_ns != now)
			offence_free(watchdog, offence);
	}
}

void watchdog_metrics(const struct watchdog *watchdog, struct metrics *page)
{
	metrics_family(page, "ration_bypass_total", "counter",
		"Processes that used a GPU without a grant, and containers over their limit, by what the driver reports.");
	metrics_each(page, "reason", bypass_texts, watchdog->found, BYPASS_MAX);
	metrics_family(page, "ration_bypass_evictions_total", "counter",
		"The API server's answers to evictions of pods that bypassed their limit.");
	metrics_each(page, "result", evicted_texts, watchdog->evicted, EVICTED_MAX);
}

int watchdog_new(const struct watchdog_deps *deps, struct watchdog **ret_watchdog)
{
	struct watchdog *watchdog = calloc(1, sizeof(*watchdog));

	if (!watchdog)
		return -ENOMEM;
	watchdog->deps = *deps;
	list_init(&watchdog->offences);
	list_init(&watchdog->evictions);
	*ret_watchdog = watchdog;
	return 0;
}

void watchdog_free(struct watchdog *watchdog)
{
	if (!watchdog)
		return;
	while (!list_empty(&watchdog->offences))
		offence_free(watchdog, list_entry(watchdog->offences.next, struct offence, item));
	while (!list_empty(&watchdog->evictions)) {
		struct eviction *eviction = list_entry(watchdog->evictions.next, struct eviction, item);

		list_remove(&eviction->item);
		free(eviction);
	}
	free(watchdog);
}
