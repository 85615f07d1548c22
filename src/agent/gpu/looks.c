#include "agent/gpu/looks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/gpu/container-names.h"
#include "agent/gpu/health.h"
#include "agent/gpu/looker.h"
#include "agent/gpu/processes.h"
#include "agent/gpu/shared.h"
#include "agent/gpu/unseen.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "grant/overhead.h"
#include "model/correction.h"
#include "net/loop.h"
#include "node/claims.h"
#include "node/registry.h"
#include "nvml/nvml.h"

/* After a sample the next one waits for this many times the sample's duration, so that the loop has time for
 * everything else even if programs make samples slow. */
#define REST_TIMES 4
#define USE_NS (900 * NS_PER_MS) /* the driver's own utilization samples are about a second long */
#define EMPTY_NS                                                                                             \
	(4 * NS_PER_S) /* period for a GPU that no pod has: only the watchdog and the metrics need it */

struct look_gpu {
	char uuid[GPU_UUID_SIZE];
	bool due, looked;
	struct clarity clarity;
	struct unseen unseen;
	int64_t looked_ns;
	uint64_t used_bytes; /* by all processes, at the last look that was answered */
	int64_t use_ns;	     /* when the driver was last asked which processes used it */
	uint64_t since_us;   /* struct looker_question */
};

struct looks {
	struct looks_deps deps;
	struct looker *looker;
	struct processes *processes;
	struct container_names *names;
	struct watched_set *set;
	struct shared shared;
	struct look_gpu gpus[NODE_GPUS_MAX];
	size_t n_gpus, next;
	struct loop_timer *rest;
	int64_t rest_until_ns, spent_ns; /* spent_ns: time of this thread in the current sample */
	struct look_gpu *at;		 /* the GPU that the driver is asked about */
	uint64_t asked_at;		 /* processes_now() when the driver was asked */
	struct holder *holders;
	struct overhead_process *of_one; /* one container's processes; has room for all holders */
};

/* ---- before and after -----------------------------------------------------------------------------------
 */

static void forget_slots(struct watched_part *gpu)
{
	free(gpu->look.before);
	gpu->look.before = NULL;
	gpu->look.n_before = 0;
}

/* Returns NULL if the usage file has no slots or cannot be read: then nothing counts as charged, and all
 * memory that the driver counts is overhead. */
static struct usage_peek_slot *read_slots(
	const struct watched_part *gpu, const struct usage_peek *peek, size_t *ret_n)
{
	struct usage_peek_slot *slots = peek->slots_used ? calloc(peek->slots_used, sizeof(*slots)) : NULL;
	int n = slots ? usage_peek_slots(gpu->of->usage_fd, peek, gpu->index, slots) : 0;

	*ret_n = n > 0 ? (size_t)n : 0;
	return slots;
}

static void note_before(struct looks *looks, const char *uuid)
{
	list_for_each (item, watched_on(looks->set, uuid)) {
		struct watched_part *gpu = list_entry(item, struct watched_part, item);
		struct usage_peek peek;

		forget_slots(gpu);
		if (usage_peek(gpu->of->usage_fd, gpu->index + 1, &peek) < 0)
			continue;
		gpu->look.wanted = peek.look_wanted;
		gpu->refused = peek.gpus[gpu->index];
		gpu->look.before = read_slots(gpu, &peek, &gpu->look.n_before);
	}
}

static size_t processes_of(const struct looks *looks, const struct watched *watched, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct holder *holder = &looks->holders[i];

		if (holder->watched == watched && holder->process)
			looks->of_one[found++] = (struct overhead_process){.owner = holder->process->owner,
				.bytes = holder->bytes,
				.pid = holder->process->pid};
	}
	return found;
}

/* Notes the processes that hold most, for messages. */
static void note_top(
	const struct looks *looks, const struct watched *watched, struct watched_part *gpu, size_t n)
{
	gpu->n_processes = 0;
	memset(gpu->top, 0, sizeof(gpu->top));
	for (size_t i = 0; i < n; i++) {
		const struct holder *holder = &looks->holders[i];
		struct watched_process next = {0, holder->bytes};

		if (holder->watched != watched || !holder->process)
			continue;
		next.pid = holder->process->pid;
		gpu->n_processes++;
		for (size_t k = 0; k < WATCHED_TOP; k++) {
			struct watched_process moved = gpu->top[k];

			if (next.bytes <= moved.bytes)
				continue;
			gpu->top[k] = next;
			next = moved;
		}
	}
}

static bool is_idle(const struct looks *looks, const struct watched *watched)
{
	const struct node_pod *pod = node_pods_by_uid(&looks->deps.node->pods, watched->uid);

	return pod && node_pod_is_idle(pod, watched->container);
}

static void publish(struct looks *looks, struct watched_part *gpu, size_t n, bool open)
{
	struct watched *watched = gpu->of;
	size_t n_after = 0, n_own = processes_of(looks, watched, n);
	_cleanup_free_ struct usage_peek_slot *after = NULL;
	struct overhead found;
	struct usage_peek peek;
	bool known = false;

	if (usage_peek(watched->usage_fd, gpu->index + 1, &peek) == 0)
		after = read_slots(gpu, &peek, &n_after);
	for (size_t i = 0; i < n_own; i++) {
		struct owner *owner = &looks->of_one[i].owner;

		if (overhead_is_ambiguous(owner, after, n_after))
			owner->image = process_image(looks->processes, looks->of_one[i].pid);
	}
	overhead_recall(looks->of_one, n_own, gpu->look.known, gpu->look.n_known);
	overhead_compute(looks->of_one, n_own, gpu->look.before, gpu->look.n_before, after, n_after, &found);
	forget_slots(gpu);
	watched_remember(gpu, looks->of_one, n_own);
	gpu->looked = true;
	gpu->used_bytes = found.used_bytes;
	gpu->overhead_bytes = found.overhead_bytes;
	note_top(looks, watched, gpu, n);
	if (!open) {
		/* The order matters. First the overhead, so that memory which dead processes leave to others
		 * counts before their charge is dropped; then the charge, before a refused allocation that
		 * waits for this sample is tried again. */
		grant_file_raise_overhead(watched->grant, gpu->index, gpu->overhead_bytes);
		known = processes_note_dead(looks->processes, gpu, after, n_after, looks->of_one, n_own) &&
			!found.moved && !found.doubtful;
	}
	/* A sample that left the owner of some memory open (unseen.h) neither ends a program's wait nor
	 * frees room: that memory may be the waiting program's own context. */
	grant_file_publish_overhead(
		watched->grant, gpu->index, gpu->overhead_bytes, gpu->look.wanted, open || found.guessed);
	if (known)
		atomic_store(&watched->grant->live[gpu->index].known_for, GRANT_KNOWN | gpu->look.wanted);
	if (found.context_bytes)
		atomic_store(&watched->grant->live[gpu->index].context_bytes, found.context_bytes);
	/* It reads the grant, so it comes after all writes (grant_file_raise_overhead()). */
	watched_note_use(gpu, is_idle(looks, watched));
	looks->at->due |= watched_pause(gpu, &found);
}

/* ---- whose they are -------------------------------------------------------------------------------------
 */

static void find_container(struct looks *looks, struct holder *holder)
{
	const struct cgroup_place *place = &holder->process->place;
	int r = place->id[0] ? container_names_find(looks->names, place->id, place->uid, &holder->container)
			     : -ENOENT;

	if (r == 0)
		holder->watched = watched_find(looks->set, place->uid, holder->container);
	else if (r == -EAGAIN)
		/* Most pods have one container with a grant. Its first context must count before the runtime
		 * has answered. */
		holder->watched = watched_only(looks->set, place->uid);
	if (!holder->watched && r != -ENOENT) {
		const char *container = r == 0 ? holder->container : NULL;
		/* The grant of a claim that the container uses; container NULL: of the only one that the pod
		 * uses. */
		const struct node_claim *claim = node_claims_of(looks->deps.node, place->uid, container);
		holder->watched = claim ? watched_only(looks->set, claim->uid) : NULL;
	}
	holder->certain = r != -EAGAIN;
}

static size_t find_holders(struct looks *looks, const struct nvml_process *list, size_t count)
{
	processes_begin(looks->processes);
	container_names_begin(looks->names);
	for (size_t i = 0; i < count; i++) {
		struct holder *holder = &looks->holders[i];

		*holder = (struct holder){
			.process = processes_get(looks->processes, list[i].pid, looks->asked_at),
			.bytes = list[i].bytes,
			.certain = true};
		if (holder->process && holder->process->verdict == 0)
			find_container(looks, holder);
	}
	return count;
}

/* ---- one GPU after the other ---------------------------------------------------------------------------
 */

static int look_ask(struct looks *looks, struct nvml *nvml, struct look_gpu *gpu)
{
	struct looker_question question = {.uuid = gpu->uuid, .since_us = gpu->since_us};

	question.use = gpu->looked_ns - gpu->use_ns >= USE_NS &&
		       looks->deps.wants_use(looks->deps.userdata, gpu->uuid);
	if (question.use)
		gpu->use_ns = gpu->looked_ns;
	return looker_ask(looks->looker, nvml, &question);
}

static int look_begin(struct looks *looks, struct look_gpu *gpu)
{
	struct nvml *nvml = gpu_health_lend(looks->deps.health);
	int64_t begin = monotonic_ns();
	int r;

	if (!nvml)
		return -ENODEV;
	gpu->due = false;
	gpu->clarity.again_ns = 0;
	gpu->looked_ns = begin;
	looks->at = gpu;
	looks->next = (size_t)(gpu - looks->gpus) + 1;
	looks->asked_at = processes_now();
	note_before(looks, gpu->uuid);
	looks->spent_ns = monotonic_ns() - begin;
	r = look_ask(looks, nvml, gpu);
	if (r < 0)
		gpu_health_return(looks->deps.health);
	return r;
}

static void looks_go(struct looks *looks)
{
	int64_t now = monotonic_ns(), later = 0;

	for (size_t i = 0; i < looks->n_gpus && !looker_is_busy(looks->looker); i++) {
		struct look_gpu *gpu = &looks->gpus[(looks->next + i) % looks->n_gpus];
		int64_t again = gpu->clarity.again_ns;

		if (!gpu->due && !(again && again <= now)) {
			later = again && (!later || again < later) ? again : later;
			continue;
		}
		if (now < looks->rest_until_ns) {
			loop_timer_set(looks->rest, looks->rest_until_ns - now);
			return;
		}
		if (look_begin(looks, gpu) < 0)
			return;
	}
	if (later && !looker_is_busy(looks->looker))
		loop_timer_set(looks->rest, later - now);
}

static void on_rested(void *userdata)
{
	looks_go(userdata);
}

void looks_resume(struct looks *looks)
{
	looks_go(looks);
}

static uint32_t percent_of(const struct looker_answer *answer, pid_t pid)
{
	for (size_t i = 0; i < answer->n_uses; i++)
		if (answer->uses[i].pid == pid)
			return answer->uses[i].percent;
	return 0;
}

/* Every process that uses a GPU has memory of it, so the holders are all that can have used it. */
static void note_use(struct looks *looks, const struct looker_answer *answer, size_t n)
{
	const char *uuid = looks->at->uuid;
	struct correction_gpu said = {.of_gpu = answer->gpu_percent, .named = (uint32_t)answer->n_uses};

	looks->at->since_us = answer->since_us;
	list_for_each (item, watched_on(looks->set, uuid)) {
		struct power_gpu *power = &list_entry(item, struct watched_part, item)->power;

		power->used_percent = 0;
		power->who = 0;
	}
	for (size_t i = 0; i < answer->n_uses; i++)
		said.of_all += answer->uses[i].percent;
	for (size_t k = 0; k < n; k++) {
		struct watched *watched = looks->holders[k].watched;
		struct watched_part *gpu = watched ? watched_part(watched, uuid) : NULL;

		if (!gpu)
			continue;
		gpu->power.used_percent += percent_of(answer, answer->list[k].pid);
		gpu->power.who += correction_who(answer->list[k].pid);
	}
	looks->deps.used(looks->deps.userdata, uuid, &said);
}

static void look_finish(struct looks *looks, const char *uuid, const struct looker_answer *answer)
{
	const struct nvml_process *list = answer->list;
	size_t count = answer->count, n = find_holders(looks, list, count);
	struct look_gpu *at = looks->at;
	int64_t now = monotonic_ns();

	clarity_note(&at->clarity, looks->holders, n, now);
	at->looked = true;
	at->used_bytes = 0;
	for (size_t i = 0; i < count; i++)
		at->used_bytes += list[i].bytes;
	list_for_each (item, watched_on(looks->set, uuid)) {
		struct watched_part *gpu = list_entry(item, struct watched_part, item);

		publish(looks, gpu, n, clarity_is_open(&at->clarity, looks->holders, n, gpu->of->uid, now));
	}
	if (answer->use_result == 0)
		note_use(looks, answer, n);
	shared_note(&looks->shared, looks->deps.node, uuid, looks->holders, n, now);
	looks->deps.seen(looks->deps.userdata, uuid, looks->holders, n);
}

static void on_answer(void *userdata, const struct looker_answer *answer)
{
	struct looks *looks = userdata;
	int64_t begin = monotonic_ns(), end;

	unseen_answered(&looks->at->unseen, looks->at->uuid, answer->result);
	watched_keep(looks->set, looks->at->uuid, answer->result == 0);
	if (answer->result == 0)
		look_finish(looks, looks->at->uuid, answer);
	end = monotonic_ns();
	looks->rest_until_ns = end + REST_TIMES * (looks->spent_ns + end - begin);
	watched_listen(looks->set);
	gpu_health_return(looks->deps.health);
	looks_go(looks);
}

static void on_wanted(void *userdata, const char *uuid)
{
	struct looks *looks = userdata;
	for (size_t i = 0; i < looks->n_gpus; i++)
		if (strcmp(looks->gpus[i].uuid, uuid) == 0)
			looks->gpus[i].due = true;
	looks_go(userdata);
}

/* The runtime has named a container. */
static void on_names(void *userdata)
{
	struct looks *looks = userdata;

	for (size_t i = 0; i < looks->n_gpus; i++)
		looks->gpus[i].due = true;
	looks_go(looks);
}

static void meet_gpus(struct looks *looks)
{
	const struct inventory *inventory = &looks->deps.node->inventory;

	for (size_t i = 0; i < inventory->n_gpus; i++) {
		const char *uuid = inventory->gpus[i].facts.uuid;
		bool known = false;

		for (size_t k = 0; k < looks->n_gpus; k++)
			known |= strcmp(looks->gpus[k].uuid, uuid) == 0;
		if (known || looks->n_gpus == NODE_GPUS_MAX)
			continue;
		memset(&looks->gpus[looks->n_gpus], 0, sizeof(looks->gpus[0]));
		memcpy(looks->gpus[looks->n_gpus++].uuid, uuid, GPU_UUID_SIZE);
	}
}

void looks_tick(struct looks *looks)
{
	/* A GPU with grants is sampled each time, because memory also grows without a call (local memory,
	 * printf); one of a node without isolation, because the samples are all that is known of its pods. */
	const struct node_registry *node = looks->deps.node;
	bool counts = gpu_mode_is_isolated(node->in_force) || node->in_force == GPU_MODE_SHARE;
	int64_t now = monotonic_ns();

	if (!counts && list_empty(watched_list(looks->set)))
		return;
	meet_gpus(looks);
	for (size_t i = 0; i < looks->n_gpus; i++) {
		struct look_gpu *gpu = &looks->gpus[i];

		gpu->due |= !list_empty(watched_on(looks->set, gpu->uuid)) || shared_has(node, gpu->uuid) ||
			    (counts && now - gpu->looked_ns >= EMPTY_NS);
		unseen_tick(&gpu->unseen, looks->deps.node, looks->deps.events, gpu->uuid);
		if (gpu->unseen.told)
			watched_keep(looks->set, gpu->uuid, false);
	}
	watched_listen(looks->set);
	looks_go(looks);
}

/* ---- life -----------------------------------------------------------------------------------------------
 */

int looks_new(const struct looks_deps *deps, struct looks **ret_looks)
{
	struct looks *looks = calloc(1, sizeof(*looks));
	int r;

	if (!looks)
		return -ENOMEM;
	looks->deps = *deps;
	shared_init(&looks->shared);
	looks->holders = calloc(NVML_MAX_PROCESSES, sizeof(*looks->holders));
	looks->of_one = calloc(NVML_MAX_PROCESSES, sizeof(*looks->of_one));
	r = loop_add_timer(deps->loop, on_rested, looks, &looks->rest);
	if (r == 0 && (!looks->holders || !looks->of_one))
		r = -ENOMEM;
	if (r == 0)
		r = processes_new(deps->proc, &looks->processes);
	if (r == 0)
		r = container_names_new(deps->cri, on_names, looks, &looks->names);
	if (r == 0)
		r = watched_set_new(deps->loop, on_wanted, looks, &looks->set);
	if (r == 0)
		r = looker_new(deps->loop, on_answer, looks, &looks->looker);
	if (r < 0)
		looks_free(looks);
	else
		*ret_looks = looks;
	return r;
}

void looks_free(struct looks *looks)
{
	if (!looks)
		return;
	/* If the driver does not answer, the thread keeps the library, which is then not returned. */
	if (looker_free(looks->looker))
		gpu_health_return(looks->deps.health);
	loop_timer_remove(looks->rest);
	watched_set_free(looks->set);
	shared_release(&looks->shared);
	container_names_free(looks->names);
	processes_free(looks->processes);
	free(looks->of_one);
	free(looks->holders);
	free(looks);
}

int looks_add(struct looks *looks, const struct watched_grant *grant)
{
	return watched_add(looks->set, grant);
}

void looks_remove(struct looks *looks, const char *uid, const char *container)
{
	watched_remove(looks->set, uid, container);
}

bool looks_used_bytes(const struct looks *looks, const char *uuid, uint64_t *ret_bytes)
{
	for (size_t i = 0; i < looks->n_gpus; i++) {
		if (!looks->gpus[i].looked || strcmp(looks->gpus[i].uuid, uuid) != 0)
			continue;
		*ret_bytes = looks->gpus[i].used_bytes;
		return true;
	}
	return false;
}

struct watched_set *looks_set(struct looks *looks)
{
	return looks->set;
}

const struct shared *looks_shared(const struct looks *looks)
{
	return &looks->shared;
}

void looks_name_owners(struct looks *looks)
{
	list_for_each (item, watched_list(looks->set)) {
		struct watched *watched = list_entry(item, struct watched, item);
		const struct node_pod *pod = node_claims_reader(looks->deps.node, watched->uid);

		watched->owner = pod ? pod->shown.owner : NULL;
	}
}

void looks_process_name(const struct looks *looks, pid_t pid, char *ret_name)
{
	process_name(looks->processes, pid, ret_name);
}
