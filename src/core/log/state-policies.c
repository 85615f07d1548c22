/* The namespaces with ResourcePolicies: policies, pods, and the labels of nodes. The pods of each unit are
 * counted again from the unit of each pod. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/core.h"
#include "core/log/state-internal.h"
#include "core/policies.h"
#include "core/policy/policy-book-internal.h"

/* ---- nodes ---- */

static void archive_policy_node(struct archive *archive, char **name, char **labels)
{
	archive_need_text(archive, "name", name);
	archive_text(archive, "labels", labels);
}

void state_read_policy_node(struct core *core, struct archive *archive)
{
	struct policy_nodes *nodes = &core->policies.nodes;
	_cleanup_free_ char *name = NULL, *labels = NULL;
	uint64_t generation = nodes->generation;

	archive_policy_node(archive, &name, &labels);
	if (!archive->failed && table_get(&nodes->by_name, name))
		archive_fail(archive, EINVAL, "node %s is there twice", name);
	if (!archive->failed && policy_nodes_set(nodes, name, labels) < 0)
		archive_fail(archive, ENOMEM, "out of memory");
	nodes->generation = generation;
}

static void write_nodes(struct core *core, struct state_writer *writer)
{
	struct policy_node *node;

	table_for_each (&core->policies.nodes.by_name, cursor, node) {
		char *name = node->name;

		archive_policy_node(state_begin(writer, "policyNode"), &name, &node->labels);
		state_end(writer);
	}
}

/* ---- pods ---- */

/* The pod with two facts that follow from its labels: whether it has a policy and a group. */
struct pod_image {
	struct policy_pod pod;
	bool selected, grouped;
};

static void archive_wait(struct archive *archive, struct policy_wait *wait)
{
	struct archive_place place;
	size_t n = POLICY_UNITS_MAX;

	while (n && !wait->since_ns[n - 1])
		n--;
	n = archive_list(archive, "since", n, POLICY_UNITS_MAX, &place);
	for (size_t i = 0; i < n; i++) {
		archive_item(archive, i);
		archive_int64(archive, "ns", &wait->since_ns[i], 0, STATE_TIME_MAX);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
	archive_uint64(archive, "preempted", &wait->preempted);
}

static void archive_standing(struct archive *archive, struct pod_image *image)
{
	struct policy_pod *pod = &image->pod;

	archive_bool(archive, "selected", &image->selected);
	archive_bool(archive, "grouped", &image->grouped);
	archive_int(archive, "unit", &pod->unit, -1, POLICY_UNITS_MAX - 1);
	archive_bool(archive, "counts", &pod->counts);
	archive_int(archive, "claim", &pod->claim.unit, -1, POLICY_UNITS_MAX - 1);
	archive_uint64(archive, "claimSerial", &pod->claim.serial);
	archive_bool(archive, "forGang", &pod->claim.for_gang);
	archive_int(archive, "given", &pod->claim.given, -1, POLICY_UNITS_MAX - 1);
	archive_int64(archive, "claimBegan", &pod->claim.began_ns, 0, STATE_TIME_MAX);
	archive_int64(archive, "claimEnds", &pod->claim.ends_ns, 0, STATE_TIME_MAX);
}

static void archive_policy_pod(struct archive *archive, struct pod_image *image)
{
	struct policy_pod *pod = &image->pod;
	struct archive_place place;

	if (archive_enter(archive, "facts", true, &place)) {
		state_archive_policy_pod_facts(archive, &pod->facts);
		archive_leave(archive, &place);
	}
	archive_standing(archive, image);
	archive_wait(archive, &pod->wait);
	archive_uint64(archive, "waitSerial", &pod->wait_serial);
	archive_uint64(archive, "preempt", &pod->preempt);
	archive_uint64(archive, "round", &pod->round);
	archive_bool(archive, "asked", &pod->asked);
	archive_bool(archive, "fresh", &pod->fresh);
	archive_int64(archive, "forget", &pod->forget_ns, 0, STATE_TIME_MAX);
	archive_chars(archive, "text", pod->text, sizeof(pod->text));
}

static struct policy_space *read_space(struct core *core, struct archive *archive)
{
	_cleanup_free_ char *name = NULL;
	struct policy_space *space;

	archive_need_text(archive, "space", &name);
	space = name ? core_policy_space(core, name) : NULL;
	if (!space)
		archive_fail(archive, EINVAL, "namespace %s is not there", name ? name : "?");
	return space;
}

static int check_policy_pod(const struct core *core, const struct policy_book *book, struct archive *archive,
	const struct policy_pod *pod)
{
	uint64_t last = core->policies.nodes.n_policies;

	if (archive->failed)
		return archive->failed;
	if (!pod->facts.uid)
		return archive_fail(archive, EINVAL, "a pod without \"facts\"");
	if (policy_book_pod(book, pod->facts.uid))
		return archive_fail(archive, EINVAL, "pod %s is there twice", pod->facts.uid);
	if (pod->claim.serial > last || pod->wait_serial > last)
		return archive_fail(
			archive, EINVAL, "pod %s knows a policy later than the last of all", pod->facts.uid);
	if (pod->round > book->round)
		return archive_fail(
			archive, EINVAL, "pod %s was shown later than the last list", pod->facts.uid);
	return 0;
}

void state_read_policy_pod(struct core *core, struct archive *archive)
{
	struct policy_space *space = read_space(core, archive);
	struct pod_image image = {.selected = false};
	int r;

	archive_policy_pod(archive, &image);
	if (space && check_policy_pod(core, &space->book, archive, &image.pod) == 0) {
		r = policy_book_restore_pod(&space->book, &image.pod, image.selected, image.grouped);
		if (r == -EINVAL)
			archive_fail(archive, EINVAL, "pod %s is in no such unit", image.pod.facts.uid);
		else if (r < 0)
			archive_fail(archive, ENOMEM, "out of memory");
	}
	policy_pod_facts_release(&image.pod.facts);
}

static void write_pod(struct policy_space *space, const struct policy_pod *pod, struct state_writer *writer)
{
	struct pod_image image = {.pod = *pod, .selected = pod->policy, .grouped = pod->group};
	struct archive *archive = state_begin(writer, "policyPod");

	archive_text(archive, "space", &space->name);
	archive_policy_pod(archive, &image);
	state_end(writer);
}

/* ---- policies ---- */

/* The limit of a state that is read, because each policy is searched among all others. */
#define POLICIES_READ_MAX 10000

/* Also true if there are too many policies. */
static bool serial_is_used(const struct core *core, uint64_t serial)
{
	const struct policy_space *space;
	size_t n = 0;

	table_for_each (&core->policies.by_name, cursor, space)
		list_for_each (item, &space->book.policies)
			if (list_entry(item, struct policy_entry, item)->policy->serial == serial ||
				++n > POLICIES_READ_MAX)
				return true;
	return false;
}

static int check_policy(const struct core *core, const struct policy_book *book, struct archive *archive,
	const struct resource_policy *policy)
{
	if (archive->failed)
		return archive->failed;
	if (policy_book_policy(book, policy->uid))
		return archive_fail(archive, EINVAL, "policy %s is there twice", policy->uid);
	if (!policy->serial || policy->serial > core->policies.nodes.n_policies ||
		serial_is_used(core, policy->serial))
		return archive_fail(
			archive, EINVAL, "policy %s has a serial that it cannot have", policy->uid);
	if (!policy->n_units)
		return archive_fail(archive, EINVAL, "policy %s has no units", policy->uid);
	return 0;
}

void state_read_policy(struct core *core, struct archive *archive)
{
	struct policy_space *space = read_space(core, archive);
	struct resource_policy *policy = calloc(1, sizeof(*policy));

	if (!policy)
		archive_fail(archive, ENOMEM, "out of memory");
	if (policy)
		state_archive_policy(archive, policy);
	if (!policy || !space || check_policy(core, &space->book, archive, policy) < 0)
		resource_policy_free(policy);
	else if (policy_book_restore_policy(&space->book, policy) < 0)
		archive_fail(archive, ENOMEM, "out of memory");
}

static void write_policy(
	struct policy_space *space, struct resource_policy *policy, struct state_writer *writer)
{
	struct archive *archive = state_begin(writer, "policy");

	archive_text(archive, "space", &space->name);
	state_archive_policy(archive, policy);
	state_end(writer);
}

/* ---- namespaces ---- */

static void archive_gone(struct archive *archive, struct policy_book *book)
{
	struct archive_place place;
	size_t n = POLICY_GONE_MAX;

	while (n && !*book->gone[n - 1])
		n--;
	n = archive_list(archive, "gone", n, POLICY_GONE_MAX, &place);
	for (size_t i = 0; i < n; i++) {
		const char *uid = archive_item_text(
			archive, i, archive_reads(archive) ? NULL : book->gone[i]);

		if (!archive_reads(archive) || !uid)
			continue;
		if (strlen(uid) >= POLICY_UID_SIZE)
			archive_fail(archive, EINVAL, "a uid in \"gone\" is too long");
		else
			memcpy(book->gone[i], uid, strlen(uid) + 1);
	}
	archive_list_end(archive, &place);
	archive_size(archive, "nextGone", &book->next_gone, POLICY_GONE_MAX - 1);
}

static void archive_space(struct archive *archive, struct policy_space *space)
{
	struct policy_book *book = &space->book;

	archive_bool(archive, "isRead", &space->is_read);
	archive_uint64(archive, "lookedAt", &space->looked_at);
	archive_uint64(archive, "nodesGeneration", &book->nodes_generation);
	archive_uint64(archive, "round", &book->round);
	archive_bool(archive, "stale", &book->stale);
	archive_uint64(archive, "freed", &book->freed);
	archive_gone(archive, book);
}

void state_read_policy_space(struct core *core, struct archive *archive)
{
	_cleanup_free_ char *name = NULL;
	struct policy_space *space = NULL;

	archive_need_text(archive, "name", &name);
	if (!archive->failed && core_policy_space(core, name))
		archive_fail(archive, EINVAL, "namespace %s is there twice", name);
	if (!archive->failed && !(space = core_add_policy_space(core, name)))
		archive_fail(archive, ENOMEM, "out of memory");
	if (!space)
		return;
	space->book.round = 0;
	archive_space(archive, space);
	if (!space->book.round)
		archive_fail(archive, EINVAL, "namespace %s without \"round\"", name);
}

static void write_space(struct policy_space *space, struct state_writer *writer)
{
	struct archive *archive = state_begin(writer, "policySpace");
	const struct policy_pod *pod;

	archive_text(archive, "name", &space->name);
	archive_space(archive, space);
	state_end(writer);
	list_for_each (item, &space->book.policies)
		write_policy(space, list_entry(item, struct policy_entry, item)->policy, writer);
	table_for_each (&space->book.pods, cursor, pod)
		write_pod(space, pod, writer);
}

static void archive_policies(struct archive *archive, struct policy_spaces *spaces)
{
	archive_bool(archive, "known", &spaces->known);
	archive_int64(archive, "watched", &spaces->watched_ns, 0, STATE_TIME_MAX);
	archive_uint64(archive, "given", &spaces->given);
	archive_uint64(archive, "waited", &spaces->waited);
	archive_uint64(archive, "nodesGeneration", &spaces->nodes.generation);
	archive_uint64(archive, "begun", &spaces->nodes.n_policies);
}

void state_read_policies(struct core *core, struct archive *archive)
{
	core->policies.known = false;
	core->policies.nodes.generation = 0;
	archive_policies(archive, &core->policies);
}

void state_write_policies(struct core *core, struct state_writer *writer)
{
	struct policy_space *space;

	archive_policies(state_begin(writer, "policies"), &core->policies);
	state_end(writer);
	write_nodes(core, writer);
	table_for_each (&core->policies.by_name, cursor, space)
		write_space(space, writer);
}
