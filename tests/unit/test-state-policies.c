/* A core that is read from what another one has written decides as that one does: ResourcePolicies. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/events.h"
#include "core/filter.h"
#include "core/policies.h"
#include "model-fixture.h"
#include "state-fixture.h"

static const char *const nodes[] = {"a", "b", "v"};

static struct policy_book *book_of(struct core *core)
{
	return &core_policy_space(core, "default")->book;
}

static void label_node(struct core *core, const char *name, const char *labels)
{
	assert_int_equal(policy_nodes_set(&core->policies.nodes, name, labels), 0);
}

static void set_up_nodes(struct core *core)
{
	static const char *const labels[] = {"pool=a\n", "pool=b\n", "type=virtual-kubelet\n"};

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		_cleanup_node_facts_ struct node_facts facts;

		fixture_node(&facts, nodes[i], GPU_POLICY_BINPACK, 1, (const uint32_t[]){6});
		assert_int_equal(ledger_set_node(&core->ledger, &facts), 0);
		label_node(core, nodes[i], labels[i]);
	}
	core_nodes_are_listed(core, NS_PER_S);
	core_pods_are_listed(core, NS_PER_S);
	core->following = true;
}

/* Units: pool a with at most max pods of the same version, pool b with at most 2000 m of cpu and a label, and
 * virtual nodes. Selects app=web. */
static void set_policy(struct core *core, const char *name, uint32_t max, enum policy_advance advance)
{
	static const char *const apps[] = {"web", "shop"};
	struct resource_policy *policy = resource_policy_new();

	policy->uid = strdup(name);
	policy->name = strdup(name);
	policy->namespace_ = strdup("default");
	policy->created = 17;
	policy->generation = 3;
	policy->advance = advance;
	policy->timeout_ns = 3 * NS_PER_S;
	policy->preempts_each = advance == ADVANCE_LACK_OR_MAX;
	policy->n_units = 3;
	policy->units[0] = (struct policy_unit){.kind = POLICY_UNIT_ECS, .has_max = true, .max = max};
	policy->units[1] = (struct policy_unit){.kind = POLICY_UNIT_IDC, .awaits_scaling = true};
	policy->units[2] = (struct policy_unit){.kind = POLICY_UNIT_ECI};
	label_pairs_add(&policy->units[0].node_selector, "pool", "a");
	label_pairs_add(&policy->units[1].node_selector, "pool", "b");
	amounts_add(&policy->units[1].max_resources, "cpu", 2000);
	label_pairs_add(&policy->units[1].pod_labels, "second", "");
	label_pairs_add(&policy->units[2].pod_annotations, "cloud", "yes");
	policy->n_keys = 1;
	policy->keys[0] = strdup("version");
	selector_require(&policy->selector, "app", SELECTOR_IN, apps, 2);
	selector_require(&policy->selector, "odd", SELECTOR_DOES_NOT_EXIST, NULL, 0);
	assert_int_equal(policy_book_set_policy(book_of(core), policy), 0);
}

static struct policy_pod_facts facts_of(const char *uid, const char *labels, const char *node)
{
	struct policy_pod_facts facts = {.uid = strdup(uid),
		.namespace_ = strdup("default"),
		.name = strdup(uid),
		.labels = labels ? strdup(labels) : NULL,
		.node = strdup(node),
		.verdict = *node ? 0 : UINT64_C(0x8000000000000001),
		.priority = -2,
		.ours = true,
		.of_replica_set = true,
		.cost = POLICY_COST_OURS,
		.cost_value = -7,
		.version = "12"};

	amounts_add(&facts.requests, "cpu", 1500);
	return facts;
}

static void show(struct core *core, const char *uid, const char *labels, const char *node, bool terminating)
{
	struct policy_pod_facts facts = facts_of(uid, labels, node);

	facts.terminating = terminating;
	policy_book_set_pod(book_of(core), &facts, true);
}

static void filter(struct core *core, const char *uid, const char *labels, int64_t now, struct strbuf *out)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	struct policy_pod_facts facts = facts_of(uid, labels, "");
	struct filter_question question = {.pod = &pod,
		.policy = {core_policy_space(core, "default"), uid, &facts},
		.names = nodes,
		.n = ARRAY_SIZE(nodes)};
	_cleanup_filter_answer_ struct filter_answer answer;

	fixture_pod(&pod, uid, 2, "");
	core_filter(core, &question, now, &answer);
	strbuf_addf(out, " %s outcome %d", uid, answer.outcome);
	for (size_t i = 0; i < answer.n_nodes; i++)
		strbuf_addf(out, " %s", answer.nodes[i]->facts.name);
	strbuf_addf(out, " preempt %llu owes %d %s", (unsigned long long)answer.policy.preempt,
		answer.policy.owes_marks, answer.policy.text);
}

static void recall(struct core *core, const char *uid, const char *labels, int64_t now, struct strbuf *out)
{
	struct policy_pod_facts facts = facts_of(uid, labels, "");
	struct policy_asked asked = {core_policy_space(core, "default"), uid, &facts};
	struct policy_decision decision;

	core_policy_recall(core, &asked, now, &decision);
	strbuf_addf(out, " recalls %d %llu %s", decision.selected, (unsigned long long)decision.preempt,
		decision.text);
}

static void confirm(struct core *core, const char *uid, const char *node, int64_t now, struct strbuf *out)
{
	struct error err = {""};
	int r = core_policy_confirm(core, "default", uid, node, now, &err);

	strbuf_addf(out, " confirm %d %s", r, err.text);
}

static void look(struct core *core, int64_t now, struct strbuf *out)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	int64_t again;
	size_t n = requeue_list_look(&core->requeues, &core->ledger, now, pods, &again);

	for (size_t i = 0; i < n; i++)
		strbuf_addf(out, " again %s", pods[i]->uid);
}

/* Without settling the book, which would hide what it has not counted yet. What is counted in a stale book is
 * thrown away before anybody reads it. */
static void say(struct core *core, int64_t now, struct strbuf *out)
{
	const struct policy_book *book = book_of(core);
	const struct policy_pod *pod;

	strbuf_addf(out, " freed %llu", (unsigned long long)book->freed);
	table_for_each (&book->pods, cursor, pod) {
		strbuf_addf(out, " %s in %d claims %d", pod->facts.uid, pod->unit, pod->claim.unit);
		for (size_t i = 0; !book->stale && pod->group && i < pod->policy->n_units; i++)
			strbuf_addf(out, ":%u/%u/%lld", pod->group->use[i].pods,
				pod->group->use[i].terminating, (long long)pod->group->use[i].milli[0]);
	}
	look(core, now, out);
}

#define WEB "app=web\nversion=1\n"

/* Nodes, policies and pods change between questions, with and without the book being counted anew. */
static void change(struct core *core, size_t step)
{
	if (step == 12)
		show(core, "2", WEB, "a", true);
	else if (step == 13)
		label_node(core, "a", "pool=b\n"); /* the counts are of the old label */
	else if (step == 14)
		policy_book_delete_pod(book_of(core), "1");
	else if (step == 16)
		label_node(core, "a", "pool=a\n");
	else if (step == 18)
		set_policy(core, "p", 3, ADVANCE_TIMEOUT); /* no pod has a policy now */
	else if (step == 20)
		policy_book_delete_pod(book_of(core), "2");
	else if (step == 23)
		policy_book_begin_list(book_of(core));
	else if (step == 24)
		show(core, "3", WEB "second=\n", "b", false);
	else if (step == 25)
		policy_book_end_list(book_of(core));
	else if (step == 28)
		policy_nodes_remove(&core->policies.nodes, "v");
	else if (step == 30)
		policy_book_remove_policy(book_of(core), "older");
}

static void begin(struct core *core, size_t step)
{
	if (step == 0)
		set_up_nodes(core);
	else if (step == 1)
		core_add_policy_space(core, "default")->is_read = true;
	else if (step == 2)
		set_policy(core, "p", 2, ADVANCE_LACK_OR_MAX);
	else if (step == 3)
		set_policy(core, "older", 1, ADVANCE_MAX); /* the same age, and the name comes first */
	else if (step == 4)
		core_add_policy_space(core, "other")->changed = true;
	else if (step == 5)
		show(core, "1", WEB, "a", false);
	else if (step == 6)
		show(core, "3", "app=db\n", "b", false);
}

static void policy_step(struct core *core, size_t step, struct strbuf *out)
{
	int64_t now = (int64_t)(step + 1) * NS_PER_S;

	core->heard_ns = now;
	begin(core, step);
	change(core, step);
	if (step == 7 || step == 8)
		filter(core, step == 7 ? "4" : "5", WEB, now, out);
	else if (step == 9 || step == 22 || step == 26)
		filter(core, "6", WEB, now, out);
	else if (step == 10)
		recall(core, "5", WEB, now, out);
	else if (step == 11 || step == 15)
		confirm(core, "4", step == 11 ? "a" : "b", now, out);
	else if (step == 17)
		filter(core, "7", "app=shop\n", now, out);
	else if (step == 19)
		core_tick(core, now + 700 * NS_PER_S); /* in a book that is stale, claims end */
	else if (step == 21 || step == 27)
		core_look_at_policies(core);
	else if (step == 29)
		filter(core, "1", WEB, now, out);
	else if (step > 31)
		core_tick(core, now);
	if (core_policy_space(core, "default"))
		say(core, now, out);
}

/* No GPU is free in the first unit: pods wait until their time there is over, and for preemption before. */
static void wait_step(struct core *core, size_t step, struct strbuf *out)
{
	int64_t now = (int64_t)(step + 1) * NS_PER_S;
	_cleanup_pod_facts_ struct pod_facts full;

	if (step <= 1)
		begin(core, step);
	else if (step == 2)
		set_policy(core, "p", 9, ADVANCE_TIMEOUT);
	else if (step == 7)
		set_policy(core, "p", 9, ADVANCE_LACK_OR_MAX);
	else
		filter(core, step % 2 ? "4" : "5", WEB, now, out);
	fixture_pod(&full, "full", 6, "");
	fixture_bind(&full, "a", "GPU-a-0");
	if (step == 1)
		assert_int_equal(ledger_set_pod(&core->ledger, &full), 0);
	if (step == 10)
		policy_book_pod(book_of(core), "4")->busy = true;
	if (step > 1)
		say(core, now, out);
}

static void pods_wait_for_units_as_they_did(void **state)
{
	state_try_script(&(struct script){.n_steps = 14, .step = wait_step});
}

/* ---- any events ---- */

static uint32_t seed;

/* Below n; the same for each core that takes the step. */
static uint32_t drawn(size_t step, uint32_t what, uint32_t n)
{
	uint32_t x = (seed * 7919 + (uint32_t)step * 104729 + what * 1299709) | 1;

	for (int i = 0; i < 4; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
	}
	return (x >> 8) % n;
}

static void draw_change(struct core *core, size_t step, const char *uid, const char *labels)
{
	static const char *const of_nodes[] = {"pool=a\n", "pool=b\n", "type=virtual-kubelet\n", NULL};
	const char *node = drawn(step, 1, 3) ? nodes[drawn(step, 2, 3)] : "";

	switch (drawn(step, 3, 10)) {
	case 0:
		label_node(core, nodes[drawn(step, 4, 3)], of_nodes[drawn(step, 5, 4)]);
		break;
	case 1:
		policy_nodes_remove(&core->policies.nodes, nodes[drawn(step, 4, 3)]);
		break;
	case 2:
		set_policy(core, drawn(step, 4, 2) ? "p" : "older", drawn(step, 5, 4),
			(enum policy_advance)drawn(step, 6, ADVANCE_MAX_VALUE));
		break;
	case 3:
		policy_book_remove_policy(book_of(core), drawn(step, 4, 2) ? "p" : "older");
		break;
	case 4:
		policy_book_delete_pod(book_of(core), uid);
		break;
	case 5:
		policy_book_begin_list(book_of(core));
		break;
	case 6:
		policy_book_end_list(book_of(core));
		break;
	default:
		show(core, uid, labels, node, drawn(step, 4, 3) == 0);
		break;
	}
}

static void any_step(struct core *core, size_t step, struct strbuf *out)
{
	static const char *const uids[] = {"1", "2", "3", "4", "5", "6", "7", "8"};
	static const char *const all[] = {
		WEB, WEB "second=\n", "app=shop\nversion=2\n", "app=db\n", "app=web\n"};
	const char *uid = uids[drawn(step, 7, ARRAY_SIZE(uids))],
		   *labels = all[drawn(step, 8, ARRAY_SIZE(all))];
	int64_t now = (int64_t)(step + 1) * NS_PER_S * (drawn(0, 9, 4) ? 1 : 100);

	core->heard_ns = now;
	if (step <= 3) {
		begin(core, step);
		return;
	}
	switch (drawn(step, 10, 8)) {
	case 0:
	case 1:
		filter(core, uid, labels, now, out);
		break;
	case 2:
		recall(core, uid, labels, now, out);
		break;
	case 3:
		confirm(core, uid, nodes[drawn(step, 4, 3)], now, out);
		break;
	case 4:
		core_tick(core, now);
		break;
	case 5:
		core_look_at_policies(core);
		break;
	default:
		draw_change(core, step, uid, labels);
		break;
	}
	say(core, now, out);
}

static void after_any_events_policies_go_on_as_they_did(void **state)
{
	for (seed = 1; seed <= 20; seed++)
		state_try_script(&(struct script){.n_steps = 50, .step = any_step});
}

static void a_step_without_spaces(struct core *core, size_t step, struct strbuf *out)
{
	if (step == 0)
		core->policies.known = false;
	else if (step == 1)
		set_up_nodes(core);
	else
		confirm(core, "p", "a", NS_PER_S, out);
}

static void policies_go_on_as_they_did(void **state)
{
	state_try_script(&(struct script){.n_steps = 34, .step = policy_step});
}

static void what_is_not_known_stays_unknown(void **state)
{
	state_try_script(&(struct script){.n_steps = 3, .step = a_step_without_spaces});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policies_go_on_as_they_did),
		cmocka_unit_test(pods_wait_for_units_as_they_did),
		cmocka_unit_test(after_any_events_policies_go_on_as_they_did),
		cmocka_unit_test(what_is_not_known_stays_unknown),
	};

	return cmocka_run_group_tests_name("state-policies", tests, NULL, NULL);
}
