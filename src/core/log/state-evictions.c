/* Attempts to have a GPU freed, their orders to the caller, and the PodDisruptionBudgets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/eviction-attempt.h"
#include "core/log/state-internal.h"
#include "model/facts-archive.h"

#define VICTIMS_MAX 4096 /* more than fit on the GPUs of one node */

/* ---- budgets ---- */

void state_read_budget(struct core *core, struct archive *archive)
{
	struct budget *budget = calloc(1, sizeof(*budget));

	if (!budget) {
		archive_fail(archive, ENOMEM, "out of memory");
		return;
	}
	state_archive_budget(archive, budget);
	if (!archive->failed && table_get(&core->budgets.by_uid, budget->uid))
		archive_fail(archive, EINVAL, "budget %s is there twice", budget->uid);
	if (archive->failed)
		budget_free(budget);
	else if (budgets_set(&core->budgets, budget) < 0)
		archive_fail(archive, ENOMEM, "out of memory");
}

/* ---- attempts ---- */

/* Writes names of nodes or pods, or reads them into storage of at most max entries. Returns their number. */
static size_t archive_names(struct archive *archive, const char *key, char **names, size_t n, size_t max)
{
	struct archive_place place;

	n = archive_list(archive, key, n, max, &place);
	for (size_t i = 0; i < n; i++) {
		const char *name = archive_item_text(archive, i, archive_reads(archive) ? NULL : names[i]);

		if (archive_reads(archive) && name && !(names[i] = strdup(name)))
			archive_fail(archive, ENOMEM, "out of memory");
	}
	archive_list_end(archive, &place);
	return n;
}

static void archive_spared(struct archive *archive, struct eviction_attempt *attempt)
{
	struct archive_place place;
	size_t n = archive_list(archive, "spared", attempt->spared.count, SIZE_MAX, &place), cursor = 0;
	const char *uid = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!archive_reads(archive))
			table_next(&attempt->spared, &cursor, &uid, NULL);
		uid = archive_item_text(archive, i, uid);
		if (archive_reads(archive) && uid && table_set(&attempt->spared, uid, attempt) < 0)
			archive_fail(archive, ENOMEM, "out of memory");
	}
	archive_list_end(archive, &place);
}

static void archive_victims(struct archive *archive, struct eviction_attempt *attempt)
{
	struct archive_place place;
	size_t n = archive_list(archive, "victims", attempt->plan.n_victims, VICTIMS_MAX, &place);

	if (archive_reads(archive) && n &&
		!(attempt->plan.victims = calloc(n, sizeof(*attempt->plan.victims)))) {
		archive_fail(archive, ENOMEM, "out of memory");
		n = 0;
	}
	attempt->plan.n_victims = n;
	for (size_t i = 0; i < n; i++) {
		archive_item(archive, i);
		archive_pod_facts(archive, &attempt->plan.victims[i]);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
}

/* Everything but the pod, which is read first. */
static void archive_attempt(struct archive *archive, struct eviction_attempt *attempt)
{
	archive_enum(archive, "step", &attempt->step, EVICTION_WAIT + 1);
	archive_enum(archive, "order", &attempt->order, EVICTION_ORDER_CLEAR + 1);
	archive_bool(archive, "busy", &attempt->busy);
	archive_int64(archive, "begun", &attempt->begun_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "due", &attempt->due_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "requeue", &attempt->requeue_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "backoff", &attempt->backoff_ns, 0, STATE_TIME_MAX);
	attempt->nodes.n = archive_names(
		archive, "nodes", attempt->nodes.names, attempt->nodes.n, EVICTION_NODES_MAX);
	archive_size(archive, "nextNode", &attempt->nodes.next, EVICTION_NODES_MAX);
	archive_spared(archive, attempt);
	archive_chars(archive, "gpu", attempt->plan.gpu, sizeof(attempt->plan.gpu));
	archive_victims(archive, attempt);
	archive_size(archive, "next", &attempt->plan.next, VICTIMS_MAX);
	archive_uint32(archive, "tries", &attempt->plan.tries, INT32_MAX);
	archive_int64(archive, "evicted", &attempt->plan.evicted_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "gone", &attempt->plan.gone_ns, 0, STATE_TIME_MAX);
	archive_bool(archive, "ignoreDeleting", &attempt->ignore_deleting);
}

/* The step in which an order of this kind is given. */
static enum eviction_step step_of(enum eviction_order order)
{
	switch (order) {
	case EVICTION_ORDER_EVICT:
		return EVICTION_EVICT;
	case EVICTION_ORDER_MARK:
		return EVICTION_MARK;
	case EVICTION_ORDER_NOMINATE:
		return EVICTION_NOMINATE;
	case EVICTION_ORDER_CLEAR:
		break;
	}
	return EVICTION_REST;
}

static void check_attempt(struct archive *archive, const struct eviction_attempt *attempt)
{
	bool has_victim = attempt->plan.next < attempt->plan.n_victims;

	if (attempt->nodes.next > attempt->nodes.n ||
		(attempt->step > EVICTION_PLANNED && attempt->nodes.next == attempt->nodes.n))
		archive_fail(archive, EINVAL, "\"nextNode\" is none of the nodes");
	if (attempt->plan.next > attempt->plan.n_victims || (attempt->step == EVICTION_MARK && !has_victim) ||
		(attempt->step == EVICTION_EVICT && attempt->busy && !has_victim))
		archive_fail(archive, EINVAL, "\"next\" is none of the victims");
	if (attempt->busy && attempt->step != step_of(attempt->order))
		archive_fail(archive, EINVAL, "\"order\" is not one of \"step\"");
}

void state_read_eviction(struct core *core, struct archive *archive)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct eviction_attempt *attempt;
	struct archive_place place;

	if (archive_enter(archive, "pod", true, &place)) {
		archive_pod_facts(archive, &pod);
		archive_leave(archive, &place);
	}
	if (!archive->failed && (!pod.uid || table_get(&core->evictions.attempts, pod.uid)))
		archive_fail(archive, EINVAL, "an attempt without a pod, or one that is there twice");
	if (archive->failed)
		return;
	attempt = attempt_new(&core->evictions, &pod, 0);
	if (!attempt) {
		archive_fail(archive, ENOMEM, "out of memory");
		return;
	}
	attempt->backoff_ns = 0;
	archive_attempt(archive, attempt);
	check_attempt(archive, attempt);
}

static void archive_evictions(struct archive *archive, struct evictions *evictions)
{
	archive_bool(archive, "busy", &evictions->busy);
	archive_int64(archive, "due", &evictions->due_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "searchBegan", &evictions->search_began_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "searchAfter", &evictions->search_after_ns, 0, STATE_TIME_MAX);
}

/* This is the last line, because it has the orders, whose attempts must be read before. */
void state_read_evictions(struct core *core, struct archive *archive)
{
	struct evictions *evictions = &core->evictions;
	struct archive_place place;
	size_t n;

	archive_evictions(archive, evictions);
	n = archive_list(archive, "orders", 0, SIZE_MAX, &place);
	for (size_t i = 0; i < n && !archive->failed; i++) {
		const char *uid = archive_item_text(archive, i, NULL);
		struct eviction_attempt *attempt = uid ? table_get(&evictions->attempts, uid) : NULL;

		if (!attempt || attempt->order_item.next || !attempt->busy)
			archive_fail(archive, EINVAL, "\"orders\" names an attempt that has none");
		else
			list_append(&evictions->orders, &attempt->order_item);
	}
	archive_list_end(archive, &place);
}

void state_write_evictions(struct core *core, struct state_writer *writer)
{
	struct evictions *evictions = &core->evictions;
	struct eviction_attempt *attempt;
	struct archive_place place;
	struct archive *archive;
	size_t n = 0, i = 0;
	struct list *of_namespace;

	table_for_each (&core->budgets.by_namespace, cursor, of_namespace)
		list_for_each (item, of_namespace) {
			state_archive_budget(
				state_begin(writer, "budget"), list_entry(item, struct budget, item));
			state_end(writer);
		}
	table_for_each (&evictions->attempts, cursor, attempt) {
		archive = state_begin(writer, "eviction");
		archive_enter(archive, "pod", true, &place);
		archive_pod_facts(archive, &attempt->pod);
		archive_leave(archive, &place);
		archive_attempt(archive, attempt);
		state_end(writer);
	}
	list_for_each (item, &evictions->orders)
		n++;
	archive = state_begin(writer, "evictions");
	archive_evictions(archive, evictions);
	archive_list(archive, "orders", n, SIZE_MAX, &place);
	list_for_each (item, &evictions->orders)
		archive_item_text(
			archive, i++, list_entry(item, struct eviction_attempt, order_item)->pod.uid);
	archive_list_end(archive, &place);
	state_end(writer);
}
