/* A core that is read from what another one has written decides as that one does: pods that wait, binds,
 * resizes, and leadership. */
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
#include "core/bind.h"
#include "core/events.h"
#include "core/placement/rank.h"
#include "core/registry/resize.h"
#include "core/resizing.h"
#include "model-fixture.h"
#include "state-fixture.h"

static int64_t at(size_t step)
{
	return (int64_t)(step + 1) * NS_PER_S;
}

static void node_with(struct core *core, uint32_t first, uint32_t second, enum gpu_mode mode)
{
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){first, second});
	facts.mode = mode;
	assert_int_equal(ledger_set_node(&core->ledger, &facts), 0);
	core_nodes_are_listed(core, NS_PER_S);
	core_pods_are_listed(core, NS_PER_S);
	core->following = true;
}

static void bound_pod(struct core *core, const char *uid, uint32_t units, const char *uuid)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, uid, units, "");
	fixture_bind(&facts, "n", uuid);
	assert_int_equal(ledger_set_pod(&core->ledger, &facts), 0);
}

/* ---- pods that wait ---- */

static void rejected(struct core *core, const char *uid, uint32_t units, int32_t priority, int64_t now)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, uid, units, "o");
	facts.priority = priority;
	assert_int_equal(requeue_list_rejected(&core->requeues, &facts, &core->ledger, now), 0);
}

static void look(struct core *core, int64_t now, struct strbuf *out)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	bool due = requeue_list_is_due(&core->requeues, &core->ledger);
	int64_t again;
	size_t n = requeue_list_look(&core->requeues, &core->ledger, now, pods, &again);

	strbuf_addf(out, " due %d", due);
	for (size_t i = 0; i < n; i++)
		strbuf_addf(out, " %s", pods[i]->uid);
	strbuf_addf(out, " again %lld", (long long)again);
}

static void wait_otherwise(struct core *core, size_t step, int64_t now)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, step == 4 ? "unit" : step == 5 ? "member" : "found", 2, "");
	if (step == 4)
		assert_int_equal(
			requeue_list_has_no_unit(&core->requeues, &facts, 7, now + 2 * NS_PER_S, now), 0);
	else if (step == 5)
		assert_int_equal(requeue_list_waits_for_gang(&core->requeues, &facts, now), 0);
	else
		assert_int_equal(requeue_list_found_waiting(&core->requeues, &facts, now), 0);
}

static void place_member(struct core *core, int64_t now)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, "member", 2, "");
	assert_int_equal(requeue_list_gang_has_place(&core->requeues, &facts, now), 0);
}

static void requeue_step(struct core *core, size_t step, struct strbuf *out)
{
	int64_t now = at(step);

	if (step == 0)
		node_with(core, 10, 4, GPU_MODE_SHARE);
	else if (step == 1)
		bound_pod(core, "r", 10, "GPU-n-0");
	else if (step == 2 || step == 3)
		rejected(core, step == 2 ? "low" : "high", 9, (int32_t)step, now);
	else if (step <= 6)
		wait_otherwise(core, step, now);
	else if (step == 8)
		place_member(core, now);
	else if (step == 10)
		ledger_remove_pod(&core->ledger, "r");
	else if (step == 12)
		requeue_list_failed(&core->requeues, "high", now);
	else if (step == 13)
		requeue_list_unit_freed(&core->requeues, "default", 8);
	else if (step == 14)
		rejected(core, "low", 9, 2, now);
	else if (step == 16)
		requeue_list_gang_has_none(&core->requeues, "member");
	else if (step == 17)
		requeue_list_gang_tells(&core->requeues, "member");
	else if (step == 19)
		requeue_list_stop(&core->requeues, "unit", REQUEUE_UNIT);
	else if (step == 20)
		requeue_list_forget_gone(&core->requeues, &core->ledger, now);
	if (step > 6)
		look(core, now, out);
}

static void pods_wait_on_as_they_did(void **state)
{
	state_try_script(&(struct script){.n_steps = 30, .step = requeue_step});
}

/* ---- GPU models ---- */

static void model_node(struct core *core, const char *name, const char *models)
{
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, 2, (const uint32_t[]){10, 10});
	facts.models = strdup(models);
	assert_int_equal(ledger_set_node(&core->ledger, &facts), 0);
}

static void say_first(struct core *core, struct strbuf *out)
{
	const struct node_ledger *nodes[2] = {
		ledger_node(&core->ledger, "a"), ledger_node(&core->ledger, "b")};
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "asking", 5, "");
	assert_int_equal(rank_nodes(&core->ledger, nodes, 2, 2, &pod), 0);
	strbuf_addf(out, " first %s", nodes[0]->facts.name);
	assert_int_equal(ledger_check(&core->ledger, NULL), 0);
}

static void model_step(struct core *core, size_t step, struct strbuf *out)
{
	_cleanup_pod_facts_ struct pod_facts waiting = {0};

	if (step == 0) {
		model_node(core, "a", "T4");
		model_node(core, "b", "A10,V100");
	}
	fixture_pod(&waiting, step < 4 ? "first" : "second", 10, "");
	waiting.models = strdup(step < 4 ? "T4" : "K80,V100");
	if (step == 1 || step == 4)
		assert_int_equal(ledger_set_pod(&core->ledger, &waiting), 0);
	if (step == 3)
		ledger_remove_pod(&core->ledger, "first");
	say_first(core, out);
}

static void a_scarce_model_stays_scarce(void **state)
{
	struct strbuf said;
	struct core core;

	strbuf_init(&said, 1 << 10);
	core_init(&core, NULL);
	for (size_t step = 0; step < 6; step++)
		model_step(&core, step, &said);
	assert_string_equal(strbuf_cstr(&said), " first a first b first b first a first a first a");
	core_release(&core);
	strbuf_release(&said);
	state_try_script(&(struct script){.n_steps = 6, .step = model_step});
}

/* ---- leadership ---- */

static void say_leadership(struct core *core, int64_t now, struct strbuf *out)
{
	static const char *const names[] = {"a", "b", "c"};
	struct error err = {""};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		strbuf_addf(out, " %d", leadership_node(&core->leadership, names[i], now));
	strbuf_addf(out, " may %d", ownership_may_bind(&core->ownership, now, &err));
	strbuf_addf(out, " %s", err.text);
}

static void leadership_step(struct core *core, size_t step, struct strbuf *out)
{
	struct leadership *leadership = &core->leadership;
	int64_t now = NS_PER_S + (int64_t)step * 50 * NS_PER_MS;

	if (step == 0 || step == 12)
		leadership_note_call(leadership, true, now);
	else if (step == 1 || step == 2)
		leadership_begin(leadership, step == 1 ? "a" : "b");
	else if (step == 3)
		leadership_end(leadership, "a", 1, true, now);
	else if (step == 4)
		leadership_end(leadership, "b", 1, false, now);
	else if (step == 5)
		leadership_begin(leadership, "c");
	else if (step == 6)
		core->ownership = (struct ownership){.owner = LEDGER_OWNER_OTHER, .holder = "ns/other"};
	else if (step == 8)
		core->ownership = (struct ownership){.trouble = "the Lease cannot be read"};
	else if (step == 10)
		core->ownership = (struct ownership){
			.owner = LEDGER_OWNER_US, .holder = "ns/us", .valid_until_ns = now + 100 * NS_PER_MS};
	else if (step == 14)
		leadership_end(leadership, "c", 1, true, now);
	say_leadership(core, now, out);
}

static void leadership_goes_on_as_it_did(void **state)
{
	state_try_script(&(struct script){.n_steps = 18, .step = leadership_step});
}

/* ---- binds ---- */

static char *write_binding(void *userdata, const struct bind *bind, const struct pod_facts *facts,
	const struct placement *placement, bool forming, struct error *err)
{
	return strdup("{}");
}

static int parse_size(
	void *userdata, const struct pod_facts *facts, struct placement *target, struct error *err)
{
	uint32_t units = (uint32_t)atoi(facts->resize);

	target->resizes++;
	return placement_resize(target, &facts->request, "main", units, err);
}

static int write_patch(struct resize_answer *ret_answer, const char *said)
{
	ret_answer->text = strdup("");
	ret_answer->said = strdup(said);
	return ret_answer->text && ret_answer->said ? 0 : -EAGAIN;
}

static int write_yes(void *userdata, void *shown, const struct pod_facts *facts,
	const struct placement *target, bool same, struct resize_answer *ret_answer, struct error *err)
{
	return write_patch(ret_answer, same ? "same" : "yes");
}

static int write_no(void *userdata, void *shown, const struct pod_facts *facts, const struct error *why,
	struct resize_answer *ret_answer)
{
	return write_patch(ret_answer, why->text);
}

static void prepare(struct core *core)
{
	core->binds.ops = (struct bind_ops){.write_binding = write_binding};
	core->resizings.ops = (struct resize_ops){
		.parse = parse_size, .write_yes = write_yes, .write_no = write_no};
}

static void ask_bind(struct core *core, const char *uid, const char *node, int64_t now)
{
	struct bind_target target = {.uid = strdup(uid),
		.namespace_ = strdup("default"),
		.name = strdup(uid),
		.node = strdup(node)};

	assert_int_equal(core_bind(core, &target, NULL, now), 0);
}

static void say_orders(struct core *core, bool answer, struct strbuf *out)
{
	struct bind *bind;

	while ((bind = core_next_bind_order(core))) {
		strbuf_addf(out, " %llu %s order %d text %d outcome %d %s", (unsigned long long)bind->number,
			bind->what.uid, bind->order, bind->text != NULL, bind->outcome, bind->error.text);
		if (bind->order == BIND_ANSWER && answer)
			core_bind_is_answered(core, bind);
	}
}

static void bind_of(struct core *core, uint64_t number, struct bind **ret_bind)
{
	*ret_bind = binds_find(&core->binds, number);
	assert_non_null(*ret_bind);
	assert_int_equal((*ret_bind)->number, number);
}

static void see_waiting(struct core *core, const char *uid, const char *gang, int64_t now)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, uid, 3, "");
	facts.gang = gang ? strdup(gang) : NULL;
	facts.gang_min = gang ? 2 : 0;
	assert_int_equal(core_see_pod(core, &facts, 0, now), 0);
}

static void read_pod(struct core *core, uint64_t number, const char *uid, int64_t now)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct bind *bind;

	bind_of(core, number, &bind);
	fixture_pod(&facts, uid, 3, "");
	core_bind_pod_read(core, bind, &facts, NULL, now);
}

static void answer_binding(struct core *core, uint64_t number, enum binding_outcome outcome, int64_t now)
{
	struct bind *bind;

	bind_of(core, number, &bind);
	core_binding_answered(core, bind, outcome, "so it is", now);
}

static void end_list(struct core *core, uint64_t number, const char *why, int64_t now)
{
	struct bind *bind;

	bind_of(core, number, &bind);
	core_node_listed(core, bind, why, now);
}

/* Binds 1 and 2 wait for the list of n; 3 is of a node whose list fails; 1 is applied, 2 is in doubt; of 4
 * the pod is read first, and its answer is given late. */
static void bind_step(struct core *core, size_t step, struct strbuf *out)
{
	int64_t now = 10 * NS_PER_S + (int64_t)step * 100 * NS_PER_MS;

	if (step == 0)
		node_with(core, 10, 4, GPU_MODE_SHARE);
	else if (step == 1)
		leadership_note_call(&core->leadership, true, now);
	else if (step == 2)
		see_waiting(core, "p1", NULL, now);
	else if (step == 3)
		see_waiting(core, "p2", NULL, now);
	else if (step == 4 || step == 5)
		ask_bind(core, step == 4 ? "p1" : "p2", "n", now);
	else if (step == 6)
		ask_bind(core, "p3", "m", now);
	else if (step == 8)
		end_list(core, 1, NULL, now);
	else if (step == 10)
		end_list(core, 3, "no answer", now);
	else if (step == 12)
		answer_binding(core, 1, BINDING_APPLIED, now);
	else if (step == 13)
		answer_binding(core, 2, BINDING_UNKNOWN, now);
	else if (step == 15)
		ask_bind(core, "p4", "n", now);
	else if (step == 17)
		end_list(core, 4, NULL, now);
	else if (step == 19)
		read_pod(core, 4, "p4", now);
	else if (step == 20)
		answer_binding(core, 4, BINDING_REFUSED, now);
	else if (step == 23)
		core_bind_is_answered(core, binds_find(&core->binds, 4));
	else if (step == 25)
		ask_bind(core, "p5", "n", now);
	else if (step == 26)
		core_end_doubts(core, now + WATCH_LAG_MAX_NS);
	strbuf_addf(out, " open %zu flying %zu doubts %lld", core->binds.n_open, core->binds.n_in_flight,
		(long long)core_doubts_end_ns(core));
	if (step % 2) /* at other times the orders stay */
		say_orders(core, step != 21, out);
}

static void binds_go_on_as_they_did(void **state)
{
	state_try_script(&(struct script){.n_steps = 30, .prepare = prepare, .step = bind_step});
}

/* More binds than may be under way at once, so that some are queued, until it is too late for them. */
static void queue_step(struct core *core, size_t step, struct strbuf *out)
{
	int64_t now = 10 * NS_PER_S + (int64_t)step * NS_PER_S;
	char uid[16];

	for (int i = 0; step == 0 && i < 70; i++) {
		snprintf(uid, sizeof(uid), "p%d", i);
		ask_bind(core, uid, "n", now);
	}
	if (step == 1)
		say_orders(core, true, out);
	else if (step == 2)
		core_bind_not_asked(core, binds_find(&core->binds, 7), "no socket", now);
	else if (step == 6)
		core_bind_pod_read(core, binds_find(&core->binds, 8), NULL, "no such pod", now);
	else if (step > 2)
		say_orders(core, true, out);
}

static void a_queue_of_binds_goes_on_as_it_did(void **state)
{
	state_try_script(&(struct script){.n_steps = 9, .prepare = prepare, .step = queue_step});
}

static void a_bind_has_its_number_until_it_is_freed(void **state)
{
	struct core core;
	struct bind *bind;

	core_init(&core, NULL);
	prepare(&core);
	ask_bind(&core, "a", "n", NS_PER_S);
	ask_bind(&core, "b", "n", NS_PER_S);
	assert_string_equal(binds_find(&core.binds, 2)->what.uid, "b");
	assert_null(binds_find(&core.binds, 3));
	bind = core_next_bind_order(&core);
	core_bind_pod_read(&core, bind, NULL, "no such pod", NS_PER_S);
	assert_ptr_equal(binds_find(&core.binds, 1), bind);
	bind = core_next_bind_order(&core);
	bind = core_next_bind_order(&core);
	assert_ptr_equal(binds_find(&core.binds, 1), bind); /* the order is taken, and not carried out */
	core_bind_is_answered(&core, bind);
	assert_null(binds_find(&core.binds, 1));
	core_release(&core);
}

/* ---- resizes ---- */

static void see_resize(struct core *core, const char *uid, const char *wanted, int64_t now)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, uid, 3, "");
	fixture_bind(&facts, "n", "GPU-n-0");
	facts.running = true;
	facts.resize = wanted ? strdup(wanted) : NULL;
	facts.annotations_size = 100;
	assert_int_equal(core_see_pod(core, &facts, 0, now), 0);
}

static struct resizing *resize_of(struct core *core, const char *uid)
{
	struct resizing *resizing = resizings_find(&core->resizings, uid);

	assert_non_null(resizing);
	return resizing;
}

static void list_resize(struct core *core, const char *uid, const char *wanted, int64_t now)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, uid, 3, "");
	fixture_bind(&facts, "n", "GPU-n-0");
	facts.resize = wanted ? strdup(wanted) : NULL;
	facts.annotations_size = 100;
	core_resize_listed(core, resize_of(core, uid), true, &facts, NULL, now);
}

static void say_resizes(struct core *core, struct strbuf *out)
{
	const struct resizing *resizing;

	while ((resizing = core_next_resize_order(core)))
		strbuf_addf(out, " %s order %d text %d said %s applied %d refusal %s", resizing->uid,
			resizing->order, resizing->answer.text != NULL,
			resizing->answer.said ? resizing->answer.said : "-", resizing->answer.applied,
			resizing->refusal ? resizing->refusal : "-");
}

static void answer_resize(struct core *core, size_t step, int64_t now)
{
	if (step == 9) /* too large: a no */
		list_resize(core, "q", "11", now);
	else if (step == 11)
		core_resize_answered(core, resize_of(core, "p"), PATCH_UNKNOWN, "", now);
	else if (step == 12)
		core_resize_answered(core, resize_of(core, "q"), PATCH_REFUSED, "q may not", now);
	else if (step == 14)
		core_tick(core, now);
	else if (step == 16)
		core_resize_answered(core, resize_of(core, "p"), PATCH_CONFLICT, "", now);
	else if (step == 18)
		core_resize_listed(core, resize_of(core, "p"), true, NULL, NULL, now);
	else if (step == 20)
		core_tick(core, now);
	else if (step == 22)
		core_resize_leads(core, resize_of(core, "p"), true, now);
	else if (step == 24)
		list_resize(core, "p", "5", now);
	else if (step == 26)
		core_resize_answered(core, resize_of(core, "p"), PATCH_REFUSED, "p may not", now);
}

/* p is answered yes, of unknown outcome, and then refused; q is answered no, refused and stopped; r is
 * withdrawn. */
static void resize_step(struct core *core, size_t step, struct strbuf *out)
{
	static const char *const uids[] = {"p", "q", "r"};
	int64_t now = at(step);

	if (step == 0)
		node_with(core, 10, 4, GPU_MODE_CGPU);
	else if (step <= 3)
		see_resize(core, uids[step - 1], step == 1 ? "4" : "11", now);
	else if (step == 5)
		for (size_t i = 0; i < ARRAY_SIZE(uids); i++)
			core_resize_leads(core, resize_of(core, uids[i]), i < 2, now);
	else if (step == 7)
		list_resize(core, "p", "4", now);
	else if (step == 8)
		see_resize(core, "p", "5", now);
	else if (step == 13)
		see_resize(core, "r", NULL, now);
	else if (step == 28)
		see_resize(core, "q", "2", now);
	else
		answer_resize(core, step, now);
	strbuf_addf(out, " %zu", core->resizings.n);
	if (step % 2 == 0)
		say_resizes(core, out);
}

static void resizes_go_on_as_they_did(void **state)
{
	state_try_script(&(struct script){.n_steps = 34, .prepare = prepare, .step = resize_step});
}

/* ---- members ---- */

#define WHO "\"uid\":\"u\",\"namespace\":\"s\",\"name\":\"p\","
#define WAIT(n) "{\"waits\":true,\"maySucceed\":true,\"since\":" n ",\"due\":7}"
#define PAIR(key) "\"" key "\":[{\"key\":\"k\",\"value\":\"v\"}],"
#define AMOUNT(key) "\"" key "\":[{\"resource\":\"cpu\",\"milli\":3}],"

/* Each member of each struct, in its place; of pods and gangs see test-archive.c and test-state-policies.c.
 */
static const char *const full[] = {
	"{\"core\":{\"nodesListed\":true,\"podsListed\":true,\"following\":true,\"heard\":1,\"nodesTold\":2,\"gangsLook\":3,\"gangsLookedAt\":4}}\n",
	"{\"node\":{\"name\":\"n\",\"uid\":\"u\",\"address\":\"10.0.0.1\",\"mode\":4,\"policy\":1,\"unit\":512,"
	"\"instancesMax\":20,\"mixing\":true,\"serving\":true,\"changing\":true,\"heldUnreadable\":true,"
	"\"number\":3,\"lost\":true,\"heard\":5,\"recounts\":1,"
	"\"gpus\":[{\"uuid\":\"GPU-a\",\"index\":1,\"mib\":10240,\"healthy\":true,\"units\":1,\"instancesMax\":16},"
	"{\"uuid\":\"GPU-b\",\"index\":2,\"mib\":10241,\"units\":1,\"reason\":\"Xid 79\"}],"
	"\"nvlinkGBps\":25,\"links\":[\"NV2\"],"
	"\"held\":{\"at\":\"2026-05-04T03:02:01.000000Z\",\"namesEnded\":true,\"pods\":[{\"uid\":\"o\",\"namespace\":\"s\","
	"\"name\":\"p\",\"instances\":1,\"gpus\":[{\"uuid\":\"GPU-a\",\"units\":1,\"core\":30}]}],\"ended\":[\"e\"]}}}\n",
	"{\"ledger\":{\"generation\":4,\"capacity\":3,\"lowestPriority\":-2,\"nodesEver\":9}}\n",
	"{\"requeue\":{\"nextOrder\":9,\"lookedAt\":-1,\"reported\":true,\"hope\":7}}\n",
	"{\"requeuePod\":{\"facts\":{" WHO
	"\"request\":{\"containers\":[{\"name\":\"c\",\"units\":1}],\"units\":1}},"
	"\"room\":" WAIT("1") ",\"unit\":" WAIT("2") ",\"gang\":" WAIT(
		"3") ",\"order\":8,\"asked\":true,"
		     "\"askedAt\":4,\"rejectedAt\":-1,\"freed\":5,\"hasPlace\":true,\"mayEvict\":true,\"requeues\":3,\"inVain\":2,"
		     "\"notBefore\":6,\"backoff\":1000000000}}\n",
	"{\"policies\":{\"watched\":1,\"given\":2,\"waited\":3,\"nodesGeneration\":4,\"begun\":5}}\n",
	"{\"policyNode\":{\"name\":\"n\",\"labels\":\"a=b\\n\"}}\n",
	"{\"policySpace\":{\"name\":\"s\",\"isRead\":true,\"lookedAt\":1,\"nodesGeneration\":2,"
	"\"round\":3,\"stale\":true,\"freed\":4,\"gone\":[\"x\"],\"nextGone\":1}}\n",
	"{\"policy\":{\"space\":\"s\",\"serial\":5," WHO
	"\"created\":1,\"generation\":2,\"selectsNothing\":true,"
	"\"requirements\":[{\"key\":\"a\",\"operator\":1,\"values\":[\"b\",\"c\"]}],\"preemptsEach\":true,"
	"\"ignoresPrevious\":true,\"ignoresTerminating\":true,\"advance\":4,\"timeout\":3,\"keys\":[\"k\"],"
	"\"units\":[{\"kind\":4," PAIR("nodeSelector") "\"hasMax\":true,\"max\":1," AMOUNT("maxResources")
		PAIR("podLabels") PAIR("podAnnotations") "\"awaitsScaling\":true}]}}\n",
	"{\"policy\":{\"space\":\"s\",\"serial\":4,\"uid\":\"w\",\"namespace\":\"s\",\"name\":\"w\",\"units\":[{}]}}\n",
	"{\"policyPod\":{\"space\":\"s\",\"facts\":{" WHO
	"\"node\":\"n\",\"labels\":\"a=b\\n\",\"annotations\":\"c=d\\n\"," AMOUNT(
		"requests") "\"scheduled\":1,\"verdict\":-2,\"finished\":true,\"terminating\":true,\"priority\":-3,"
			    "\"nominated\":true,\"ofReplicaSet\":true,\"ours\":true,\"tolerates\":true,\"hasTolerations\":true,"
			    "\"version\":\"4\",\"cost\":2,\"costValue\":-5},\"selected\":true,\"grouped\":true,\"counts\":true,"
			    "\"claim\":31,\"claimSerial\":5,\"forGang\":true,\"given\":-1,\"claimBegan\":1,\"claimEnds\":2,"
			    "\"since\":[{},{\"ns\":3}],\"preempted\":4,\"waitSerial\":5,\"preempt\":6,\"round\":2,\"asked\":true,"
			    "\"fresh\":true,\"forget\":8,\"text\":\"why\"}}\n",
	"{\"binds\":{\"begun\":9}}\n",
	"{\"bind\":{\"where\":4,\"number\":8," WHO "\"node\":\"n\",\"order\":3,\"asked\":1,\"period\":-12,"
	"\"doubtEnds\":2,\"outcome\":3,\"error\":\"why\"}}\n",
	"{\"bindOrders\":{\"of\":[{\"bind\":8}]}}\n",
	"{\"resizing\":{" WHO
	"\"node\":\"n\",\"order\":2,\"busy\":true,\"gone\":true,\"another\":true,\"seen\":\"1\","
	"\"answer\":{\"text\":true,\"said\":\"yes\",\"applied\":true,\"reserved\":true},\"doubtful\":true,"
	"\"unclear\":true,\"request\":\"2\",\"refusal\":\"no\",\"annotationsSize\":3,\"next\":4,"
	"\"backoff\":200000000}}\n",
	"{\"resizeOrders\":{\"of\":[\"u\"]}}\n",
	"{\"ownership\":{\"owner\":2,\"holder\":\"h\",\"validUntil\":1,\"trouble\":\"t\"}}\n",
	"{\"leadership\":{\"lastCall\":1,\"freshUntil\":2,\"period\":3,\"nodes\":[{\"name\":\"n\",\"listed\":4}]}}\n",
	"{\"gangNodes\":{\"names\":[\"m\",\"n\"]}}\n",
	"{\"gang\":{\"key\":\"s/g\",\"hasGroup\":true,\"min\":2,\"timeout\":3,\"owners\":[\"o\"],\"short\":4,\"recall\":5,\"started\":true,"
	"\"waiting\":6,\"partly\":7,\"plan\":8,\"failures\":9,\"notBefore\":10,\"noRoomAt\":11,\"noRoomUntil\":12,\"round\":13,\"hopelessCapacity\":14}}\n",
	"{\"gangMember\":{\"gang\":\"s/g\",\"facts\":{" WHO
	"\"request\":{\"containers\":[{\"name\":\"c\",\"units\":1}],\"units\":1}},\"stage\":1,\"listed\":true,\"missed\":true,\"labelsIfRefused\":true,\"asked\":1,\"told\":2,\"nodes\":1,\"nodesValid\":3,\"kept\":4,\"ordered\":5}}\n",
	"{\"gangMember\":{\"gang\":\"s/g\",\"facts\":{\"uid\":\"w\",\"namespace\":\"s\",\"name\":\"w\",\"request\":{\"containers\":[{\"name\":\"c\",\"units\":1}],\"units\":1}},\"stage\":6,\"listed\":true,\"recalled\":true}}\n",
	"{\"gangOrder\":{\"key\":\"s/g\",\"members\":[\"u\"],\"done\":[\"w\"]}}\n",
	"{\"gangs\":{\"keepAfter\":1,\"timeout\":2,\"looked\":3,\"groupsKnown\":true,\"following\":true,\"fitCheck\":4,\"round\":5,\"kept\":\"s/g\"}}\n",
	"{\"budget\":{" WHO
	"\"allowed\":-1,\"selector\":{\"requirements\":[{\"key\":\"a\",\"operator\":1,\"values\":[\"b\"]}]}}}\n",
	"{\"eviction\":{\"pod\":{" WHO
	"\"request\":{\"containers\":[{\"name\":\"c\",\"units\":1}],\"units\":1}},\"step\":2,\"busy\":true,\"begun\":1,\"due\":2,\"requeue\":3,\"backoff\":4,\"nodes\":[\"n\",\"m\"],\"nextNode\":1,\"spared\":[\"x\"],"
	"\"gpu\":\"GPU 1 of node n\",\"victims\":[{\"uid\":\"v\",\"namespace\":\"s\",\"name\":\"v\"},{\"uid\":\"y\",\"namespace\":\"s\",\"name\":\"y\"}],"
	"\"next\":1,\"tries\":5,\"evicted\":6,\"gone\":7,\"ignoreDeleting\":true}}\n",
	"{\"evictions\":{\"busy\":true,\"due\":1,\"searchBegan\":2,\"searchAfter\":3,\"orders\":[\"u\"]}}\n",
};

static void each_member_is_read_and_written_again(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct error err = {""};
	struct core core;

	core_init(&core, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(full); i++)
		if (state_read(&core, full[i], &err) < 0)
			fail_msg("%s: %s", full[i], err.text);
	text = state_text(&core);
	for (size_t i = 0; i < ARRAY_SIZE(full); i++)
		if (!strstr(text, full[i]))
			fail_msg("%s is not in:\n%s", full[i], text);
	core_release(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_is_read_and_written_again),
		cmocka_unit_test(pods_wait_on_as_they_did),
		cmocka_unit_test(a_scarce_model_stays_scarce),
		cmocka_unit_test(leadership_goes_on_as_it_did),
		cmocka_unit_test(binds_go_on_as_they_did),
		cmocka_unit_test(a_queue_of_binds_goes_on_as_it_did),
		cmocka_unit_test(a_bind_has_its_number_until_it_is_freed),
		cmocka_unit_test(resizes_go_on_as_they_did),
	};

	return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
