#include "core/requeue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/registry/ledger.h"

#define AGAIN_NS (50 * NS_PER_MS)
#define BACKOFF_FIRST_NS NS_PER_S
#define BACKOFF_LAST_NS (60 * NS_PER_S)
#define WAITING_MAX 100000
#define NEVER UINT64_MAX /* no generation of a ledger */
#define FOUND_REQUEUES_MAX 3

struct requeue_pod {
	struct pod_facts facts;
	uint64_t rejected_at; /* ledger generation when filter last looked */
	uint64_t order;	      /* who was rejected first */
	int64_t rejected_ns;  /* when that was */
	int64_t first_rejected_ns;
	uint32_t requeues;
	int64_t not_before_ns;
	int64_t backoff_ns; /* grows while requeues do not lead to a filter call */
};

void requeue_list_init(struct requeue_list *list)
{
	*list = (struct requeue_list){0};
	table_init(&list->pods);
}

static void requeue_pod_free(struct requeue_pod *pod)
{
	if (!pod)
		return;
	pod_facts_release(&pod->facts);
	free(pod);
}

void requeue_list_release(struct requeue_list *list)
{
	struct requeue_pod *pod;

	table_for_each (&list->pods, cursor, pod)
		requeue_pod_free(pod);
	table_release(&list->pods);
}

static int requeue_pod_new(
	struct requeue_list *list, const struct pod_facts *facts, struct requeue_pod **ret_pod)
{
	struct requeue_pod *pod;

	if (list->pods.count >= WAITING_MAX)
		return -E2BIG;
	pod = calloc(1, sizeof(*pod));
	if (!pod || pod_facts_copy(facts, &pod->facts) < 0 || table_set(&list->pods, facts->uid, pod) < 0) {
		requeue_pod_free(pod);
		return -ENOMEM;
	}
	pod->order = list->next_order++;
	*ret_pod = pod;
	return 0;
}

int requeue_list_rejected(
	struct requeue_list *list, const struct pod_facts *facts, const struct ledger *ledger, int64_t now_ns)
{
	struct requeue_pod *pod = table_get(&list->pods, facts->uid);
	int r = pod ? 0 : requeue_pod_new(list, facts, &pod);

	if (r < 0)
		return r;
	if (!pod->first_rejected_ns)
		pod->first_rejected_ns = now_ns;
	pod->facts.request.gpus = facts->request.gpus;
	pod->rejected_at = ledger->generation;
	pod->rejected_ns = now_ns;
	pod->not_before_ns = 0;
	pod->backoff_ns = BACKOFF_FIRST_NS;
	return 0;
}

int requeue_list_found_waiting(struct requeue_list *list, const struct pod_facts *facts, int64_t now_ns)
{
	struct requeue_pod *pod;
	int r;

	if (table_get(&list->pods, facts->uid))
		return 0;
	r = requeue_pod_new(list, facts, &pod);
	if (r < 0)
		return r;
	pod->rejected_at = list->looked_at = NEVER;
	pod->rejected_ns = now_ns;
	pod->backoff_ns = BACKOFF_FIRST_NS;
	return 0;
}

void requeue_list_leave(struct requeue_list *list, const char *uid)
{
	requeue_pod_free(table_remove(&list->pods, uid));
}

bool requeue_list_find(const struct requeue_list *list, const char *uid, struct requeue_state *ret_state)
{
	const struct requeue_pod *pod = table_get(&list->pods, uid);

	if (!pod)
		return false;
	*ret_state = (struct requeue_state){.first_rejected_ns = pod->first_rejected_ns,
		.last_rejected_ns = pod->rejected_ns,
		.not_before_ns = pod->not_before_ns,
		.requeues = pod->requeues};
	return true;
}

bool requeue_list_is_due(const struct requeue_list *list, const struct ledger *ledger)
{
	return list->pods.count && list->looked_at != ledger->generation;
}

void requeue_list_forget_gone(struct requeue_list *list, const struct ledger *ledger, int64_t now_ns)
{
	struct requeue_pod *pod;

	table_for_each (&list->pods, cursor, pod)
		if (now_ns - pod->rejected_ns > WATCH_LAG_MAX_NS && !ledger_pod(ledger, pod->facts.uid))
			requeue_list_leave(list, pod->facts.uid);
}

/* node: where the last pod fitted, NULL at first. Pods that wait are mostly alike, and of thousands of nodes
 * a few have room. */
static bool fits_somewhere(struct ledger *ledger, const struct pod_facts *pod, const char **node)
{
	const char *name;
	size_t cursor = 0;

	if (*node && ledger_choose(ledger, *node, pod, NULL) == FITS)
		return true;
	while (table_next(&ledger->nodes, &cursor, &name, NULL)) {
		if (ledger_choose(ledger, name, pod, NULL) != FITS)
			continue;
		*node = name;
		return true;
	}
	return false;
}

static int compare_turn(const void *a, const void *b)
{
	const struct requeue_pod *x = *(const struct requeue_pod *const *)a;
	const struct requeue_pod *y = *(const struct requeue_pod *const *)b;

	if (x->facts.priority != y->facts.priority)
		return x->facts.priority > y->facts.priority ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* NULL-terminated; NULL when out of memory. */
static struct requeue_pod **in_turn(const struct requeue_list *list)
{
	struct requeue_pod **pods = calloc(list->pods.count + 1, sizeof(struct requeue_pod *)), *pod;
	size_t n = 0;

	if (!pods)
		return NULL;
	table_for_each (&list->pods, cursor, pod)
		pods[n++] = pod;
	qsort(pods, n, sizeof(struct requeue_pod *), compare_turn);
	return pods;
}

static void back_off(struct requeue_pod *pod, int64_t now_ns)
{
	pod->requeues++;
	pod->not_before_ns = now_ns + pod->backoff_ns;
	pod->backoff_ns = pod->backoff_ns * 2 > BACKOFF_LAST_NS ? BACKOFF_LAST_NS : pod->backoff_ns * 2;
}

void requeue_list_failed(struct requeue_list *list, const char *uid, int64_t now_ns)
{
	struct requeue_pod *pod = table_get(&list->pods, uid);

	if (!pod)
		return;
	if (pod->requeues)
		pod->requeues--;
	pod->not_before_ns = now_ns + BACKOFF_FIRST_NS;
	pod->backoff_ns = BACKOFF_FIRST_NS;
}

/* Its GPU is kept from others of its priority: that they do not fit says nothing about it. */
static bool has_nomination(const struct ledger *ledger, const struct pod_facts *pod)
{
	const struct ledger_pod *known = ledger_pod(ledger, pod->uid);

	return known && known->nomination;
}

/* Requests of one to this many containers at once, and of more. */
#define INSTANCE_CLASSES 9

/* What does not fit with u units on each of M GPUs does not fit with more units, more containers or on more
 * GPUs; and what asks for computing power (on one GPU only), not with more of that: one failed search
 * spares the rest. Of those with and those without it nothing is known from each other: a node may be closed
 * to one kind. The units with which a search failed, by containers and number of GPUs, or by containers and
 * percentage; more than a GPU has is all the same. */
struct failures {
	uint32_t units[INSTANCE_CLASSES][REQUEST_GPUS_MAX + 1];
	uint32_t with_core[INSTANCE_CLASSES][CORE_PER_GPU + 2];
	uint32_t whole; /* GPUs: other nodes than those of shares have them */
};

static void failures_init(struct failures *failures)
{
	memset(failures, 0xff, sizeof(*failures));
}

static uint32_t core_class(const struct request *request)
{
	return request->core > CORE_PER_GPU ? CORE_PER_GPU + 1 : request->core;
}

static uint32_t instance_class(const struct request *request)
{
	return request->instances < INSTANCE_CLASSES ? request->instances : INSTANCE_CLASSES - 1;
}

static bool failures_include(const struct failures *failures, const struct request *request)
{
	uint32_t units = request_units_per_gpu(request);

	if (request->whole)
		return request_gpus(request) >= failures->whole;
	if (request->core)
		return units >= failures->with_core[instance_class(request)][core_class(request)];
	return units >= failures->units[instance_class(request)][request_gpus(request)];
}

/* The class of the many has them of all numbers: what failed with some says nothing about those with fewer.
 */
static uint32_t first_class(const struct request *request)
{
	return request->instances < INSTANCE_CLASSES - 1 ? request->instances : INSTANCE_CLASSES;
}

static void failures_add(struct failures *failures, const struct request *request)
{
	uint32_t units = request_units_per_gpu(request);
	uint32_t from = request->core ? core_class(request) : request_gpus(request);
	uint32_t to = request->core ? CORE_PER_GPU + 1 : REQUEST_GPUS_MAX;

	if (request->whole) {
		if (request_gpus(request) < failures->whole)
			failures->whole = request_gpus(request);
		return;
	}
	for (uint32_t i = first_class(request); i < INSTANCE_CLASSES; i++)
		for (uint32_t k = from; k <= to; k++) {
			uint32_t *known = request->core ? &failures->with_core[i][k] : &failures->units[i][k];

			if (units < *known)
				*known = units;
		}
}

size_t requeue_list_look(struct requeue_list *list, struct ledger *ledger, int64_t now_ns,
	const struct pod_facts *ret_pods[REQUEUES_PER_LOOK], int64_t *ret_again_ns)
{
	_cleanup_free_ struct requeue_pod **pods = in_turn(list);
	const char *fitting = NULL;
	struct failures failures;
	int64_t again = pods ? INT64_MAX : NS_PER_S;
	size_t n = 0;

	failures_init(&failures);
	for (size_t i = 0; pods && pods[i]; i++) {
		struct requeue_pod *pod = pods[i];

		if (pod->rejected_at == ledger->generation ||
			(!pod->first_rejected_ns && pod->requeues == FOUND_REQUEUES_MAX))
			continue;
		if (failures_include(&failures, &pod->facts.request) && !has_nomination(ledger, &pod->facts))
			continue;
		if (!fits_somewhere(ledger, &pod->facts, &fitting)) {
			failures_add(&failures, &pod->facts.request);
			continue;
		}
		if (pod->not_before_ns <= now_ns && n < REQUEUES_PER_LOOK) {
			back_off(pod, now_ns);
			ret_pods[n++] = &pod->facts;
		}
		if (pod->not_before_ns - now_ns < again)
			again = pod->not_before_ns > now_ns ? pod->not_before_ns - now_ns : AGAIN_NS;
	}
	list->looked_at = ledger->generation;
	*ret_again_ns = again;
	return n;
}
