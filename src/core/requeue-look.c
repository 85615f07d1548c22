/* Chooses which of the waiting pods are requeued now. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/registry/ledger.h"
#include "core/requeue-internal.h"

/* The time to the next evaluation while pods are left to be requeued: at most 320 requeues each second. */
#define AGAIN_NS (50 * NS_PER_MS)

bool requeue_list_is_due(const struct requeue_list *list, const struct ledger *ledger)
{
	return list->pods.count && (list->reported || list->looked_at != ledger->generation);
}

static int compare_turn(const void *a, const void *b)
{
	const struct requeue_pod *x = *(const struct requeue_pod *const *)a;
	const struct requeue_pod *y = *(const struct requeue_pod *const *)b;

	if (x->facts.priority != y->facts.priority)
		return x->facts.priority > y->facts.priority ? -1 : 1;
	if (!x->in_vain != !y->in_vain)
		return x->in_vain ? 1 : -1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool may_succeed(const struct requeue_pod *pod)
{
	for (int i = 0; i < REQUEUE_REASONS; i++)
		if (pod->waits[i].may_succeed)
			return true;
	return false;
}

/* Returns INT64_MAX if the pod has no appointment. */
static int64_t next_appointment(const struct requeue_pod *pod)
{
	int64_t next_ns = INT64_MAX;

	for (int i = 0; i < REQUEUE_REASONS; i++)
		if (pod->waits[i].due_ns && pod->waits[i].due_ns < next_ns)
			next_ns = pod->waits[i].due_ns;
	return next_ns;
}

/* kube-scheduler has never asked this process for the pod, and the back-off after the last requeue is over.
 */
static bool is_of_no_use(const struct requeue_pod *pod, int64_t now_ns)
{
	return !pod->asked && !pod->has_place && pod->requeues >= FOUND_REQUEUES_MAX &&
	       pod->not_before_ns <= now_ns;
}

/* Nothing has happened for the pod since kube-scheduler asked about it. */
static bool sleeps(const struct requeue_pod *pod, const struct ledger *ledger)
{
	bool is_to_be_tested = pod->waits[REQUEUE_ROOM].waits && pod->rejected_at != ledger->generation;

	return !is_to_be_tested && !may_succeed(pod) && next_appointment(pod) == INT64_MAX;
}

/* The pods that may be requeued now or later, the first in turn first. Thousands of others may sleep besides
 * them. NULL-terminated; NULL when out of memory. */
static struct requeue_pod **in_turn(struct requeue_list *list, const struct ledger *ledger, int64_t now_ns)
{
	struct requeue_pod **pods = calloc(list->pods.count + 1, sizeof(struct requeue_pod *)), *pod;
	size_t n = 0;

	if (!pods)
		return NULL;
	table_for_each (&list->pods, cursor, pod)
		if (is_of_no_use(pod, now_ns))
			requeue_list_leave(list, pod->facts.uid);
		else if (!sleeps(pod, ledger))
			pods[n++] = pod;
	qsort(pods, n, sizeof(struct requeue_pod *), compare_turn);
	return pods;
}

/* node: where the last pod fitted, NULL at first. Waiting pods are mostly alike, and of thousands of nodes
 * only a few have room. */
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

/* The pod's GPU is kept from others of its priority. That they do not fit says nothing about this pod. */
static bool has_nomination(const struct ledger *ledger, const struct pod_facts *pod)
{
	const struct ledger_pod *known = ledger_pod(ledger, pod->uid);

	return known && known->nomination;
}

/* One class each for requests of 1, 2, ... containers; the last class is for all larger numbers. */
#define INSTANCE_CLASSES 9

/* The units with which a search failed, by containers and number of GPUs, or by containers and percentage.
 * One failed search spares others. A request that does not fit with u units on each of M GPUs does not fit
 * with more units, more containers or more GPUs. A request for computing power (on one GPU only) does not fit
 * with more of it. Requests with and without computing power say nothing about each other, because a node may
 * be closed to one kind. All percentages over 100 are one class. A request fits only nodes of its unit, so
 * requests of different units say nothing about each other, either: struct look has one of these for each of
 * a few units. */
struct failures {
	uint32_t units[INSTANCE_CLASSES][REQUEST_GPUS_MAX + 1];
	uint32_t with_core[INSTANCE_CLASSES][CORE_PER_GPU + 2];
	uint32_t whole; /* number of GPUs: nodes for whole GPUs are other nodes than those for shares */
};

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

/* The last class has requests of several numbers of containers. A failure with many says nothing about those
 * with fewer. */
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

#define UNITS_KNOWN 6 /* the four that a chart can set, one of a pod that fits any, and one more */

/* The state of one evaluation. */
struct look {
	struct ledger *ledger;
	int64_t now_ns;
	const char *fitting; /* the node where the last pod fitted, or NULL */
	/* Of the units that were asked about last, because users can name many. */
	struct failures failures[UNITS_KNOWN];
	uint32_t units[UNITS_KNOWN]; /* of each entry of failures, in MiB */
	size_t n_units;		     /* that were asked about so far */
};

static struct failures *failures_of(struct look *look, uint32_t unit_mib)
{
	size_t known = look->n_units < UNITS_KNOWN ? look->n_units : UNITS_KNOWN, i = 0;

	while (i < known && look->units[i] != unit_mib)
		i++;
	if (i == known) {
		i = look->n_units++ % UNITS_KNOWN;
		look->units[i] = unit_mib;
		memset(&look->failures[i], 0xff, sizeof(look->failures[i]));
	}
	return &look->failures[i];
}

static bool fits(struct look *look, const struct requeue_pod *pod)
{
	const struct request *request = &pod->facts.request;
	struct failures *failures = failures_of(look, request->unit_mib);

	if (!pod->waits[REQUEUE_ROOM].waits || pod->rejected_at == look->ledger->generation)
		return false;
	if (failures_include(failures, request) && !has_nomination(look->ledger, &pod->facts))
		return false;
	if (fits_somewhere(look->ledger, &pod->facts, &look->fitting))
		return true;
	failures_add(failures, request);
	return false;
}

/* Whether filter holds a GPU for the pod, or its Binding is on its way. If kube-scheduler does not bind it,
 * the hold ends. */
static bool is_being_bound(const struct ledger *ledger, const struct requeue_pod *pod)
{
	const struct ledger_pod *known = ledger_pod(ledger, pod->facts.uid);

	return known && !pod->has_place &&
	       (known->occupancy == OCCUPANCY_TENTATIVE || known->occupancy == OCCUPANCY_RESERVED);
}

/* A pod that was found may be in kube-scheduler's queue. */
static int64_t asked_by_then(const struct requeue_list *list, const struct requeue_pod *pod)
{
	int64_t since_ns = pod->asked_ns > list->found_asked_ns ? pod->asked_ns : list->found_asked_ns;

	return pod->asked || pod->has_place ? 0 : since_ns + ASKS_BY_ITSELF_NS;
}

/* When the pod must be requeued, as far as is known now. */
static int64_t next_requeue(const struct requeue_list *list, const struct requeue_pod *pod, bool worth_it)
{
	int64_t next_ns = next_appointment(pod), earliest_ns = asked_by_then(list, pod);

	if (worth_it && pod->not_before_ns < next_ns)
		next_ns = pod->not_before_ns;
	return next_ns > earliest_ns ? next_ns : earliest_ns;
}

/* Resets the reasons of this requeue, except a place that the pod's gang holds. */
static void note_requeued(struct requeue_pod *pod, int64_t now_ns)
{
	pod->requeues++;
	pod->in_vain++;
	pod->not_before_ns = now_ns + pod->backoff_ns;
	pod->backoff_ns = pod->backoff_ns * 2 > BACKOFF_LAST_NS ? BACKOFF_LAST_NS : pod->backoff_ns * 2;
	for (int i = 0; i < REQUEUE_REASONS; i++) {
		pod->waits[i].may_succeed = false;
		if (pod->waits[i].due_ns <= now_ns)
			pod->waits[i].due_ns = 0;
	}
	if (pod->has_place)
		pod->waits[REQUEUE_GANG].due_ns = pod->not_before_ns;
}

/* The pod that does not fit and that an eviction may help by now; NULL: none. Only an attempt tells, and it
 * costs a search. So one pod at a time has an attempt: the one whose last attempt or requeue was longest ago.
 */
static struct requeue_pod *next_hope(struct requeue_pod **pods, const struct ledger *ledger, int64_t now_ns)
{
	struct requeue_pod *first = NULL;
	int64_t first_ns = INT64_MAX;

	for (size_t i = 0; pods[i]; i++) {
		struct requeue_pod *pod = pods[i];
		int64_t tried_ns = pod->not_before_ns > pod->asked_ns ? pod->not_before_ns : pod->asked_ns;

		if (!pod->may_evict || !pod->waits[REQUEUE_ROOM].waits ||
			pod->rejected_at == ledger->generation || pod->not_before_ns > now_ns ||
			tried_ns >= first_ns)
			continue;
		first = pod;
		first_ns = tried_ns;
	}
	return first;
}

/* Returns when the next pod may be tried that way, relative to now. */
static int64_t requeue_hope(struct requeue_list *list, struct requeue_pod **pods, const struct ledger *ledger,
	int64_t now_ns, const struct pod_facts **ret_pod)
{
	struct requeue_pod *pod = next_hope(pods, ledger, now_ns);

	*ret_pod = NULL;
	if (!pod)
		return INT64_MAX;
	if (now_ns >= list->hope_ns) {
		note_requeued(pod, now_ns);
		list->hope_ns = now_ns + HOPE_NS;
		*ret_pod = &pod->facts;
	}
	return list->hope_ns - now_ns;
}

size_t requeue_list_look(struct requeue_list *list, struct ledger *ledger, int64_t now_ns,
	const struct pod_facts *ret_pods[REQUEUES_PER_LOOK], int64_t *ret_again_ns)
{
	_cleanup_free_ struct requeue_pod **pods = in_turn(list, ledger, now_ns);
	struct look look = {.ledger = ledger, .now_ns = now_ns};
	int64_t again_ns = pods ? INT64_MAX : NS_PER_S;
	size_t n = 0;

	for (size_t i = 0; pods && pods[i]; i++) {
		struct requeue_pod *pod = pods[i];
		bool has_room = fits(&look, pod);
		int64_t next_ns = next_requeue(list, pod, has_room || may_succeed(pod));

		if (is_being_bound(ledger, pod))
			next_ns = now_ns + NS_PER_S;
		if (next_ns <= now_ns && n < REQUEUES_PER_LOOK) {
			note_requeued(pod, now_ns);
			ret_pods[n++] = &pod->facts;
			next_ns = next_requeue(list, pod, has_room);
		}
		if (next_ns != INT64_MAX && next_ns - now_ns < again_ns)
			again_ns = next_ns > now_ns ? next_ns - now_ns : AGAIN_NS;
	}
	if (pods && n < REQUEUES_PER_LOOK) {
		int64_t next_ns = requeue_hope(list, pods, ledger, now_ns, &ret_pods[n]);

		n += ret_pods[n] != NULL;
		if (next_ns < again_ns)
			again_ns = next_ns;
	}
	list->looked_at = ledger->generation;
	list->reported = false;
	*ret_again_ns = again_ns;
	return n;
}
