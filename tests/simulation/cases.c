#include "cases.h"

#include <stdio.h>
#include <string.h>

/* Helpers: inputs of a history, in a line each. */

static struct input *pod(
	struct plan *plan, int64_t at_ms, uint8_t units, enum pod_end end, uint32_t lifetime_ms)
{
	struct input *input = plan_add_pod(plan, at_ms, units);

	input->shape.end = (uint8_t)end;
	input->shape.lifetime_ms = lifetime_ms;
	return input;
}

static struct input *stays(struct plan *plan, int64_t at_ms, uint8_t units)
{
	return pod(plan, at_ms, units, END_NEVER, 0);
}

/* form: one letter a container: i(nit), s(idecar), m(ain); units: one digit each */
static struct input *several(struct plan *plan, int64_t at_ms, const char *form, const char *units)
{
	struct input *input = stays(plan, at_ms, 1);

	input->shape.n_containers = (uint8_t)strlen(form);
	for (size_t i = 0; form[i]; i++) {
		input->shape.kinds[i] = form[i] == 'i'	 ? CONTAINER_INIT
					: form[i] == 's' ? CONTAINER_SIDECAR
							 : CONTAINER_MAIN;
		input->shape.units[i] = (uint8_t)(units[i] - '0');
	}
	return input;
}

static struct input *fault(struct plan *plan, int64_t at_ms, enum input_kind kind, uint8_t a, uint32_t ms)
{
	struct input *input = plan_add(plan, at_ms, kind);

	input->a = a;
	input->ms = ms;
	return input;
}

static void slow(struct plan *plan, int watcher, uint16_t ms)
{
	plan->slow_watch[watcher] = ms;
}

/* What is expected beside the invariants. */

static int running(const struct statistics *statistics, uint64_t n)
{
	if (statistics->counts[COUNT_RUNNING_AT_END] == n)
		return 0;
	printf("# %llu pods run in the end, not %llu\n",
		(unsigned long long)statistics->counts[COUNT_RUNNING_AT_END], (unsigned long long)n);
	return -1;
}

static int one_runs(const struct sim *sim, const struct statistics *statistics)
{
	return running(statistics, 1);
}

static int two_run(const struct sim *sim, const struct statistics *statistics)
{
	return running(statistics, 2);
}

static int nobody_runs(const struct sim *sim, const struct statistics *statistics)
{
	return running(statistics, 0) < 0 || statistics->counts[COUNT_STARTS] ? -1 : 0;
}

static void row_1(struct plan *plan)
{
	several(plan, 0, "mm", "23");
	stays(plan, 1, 2);
	slow(plan, agent_watcher(0), 2000);
}

static void row_2(struct plan *plan)
{
	stays(plan, 0, 2)->shape.fate = FATE_OUT_OF_CPU;
	stays(plan, 30, 2)->shape.fate = FATE_EVICTED;
	stays(plan, 60, 2);
	slow(plan, agent_watcher(0), 2000);
}

static int row_2_check(const struct sim *sim, const struct statistics *statistics)
{
	if (statistics->reasons[REASON_OUT_OF_CPU] != 1 || statistics->reasons[REASON_EVICTED] != 1)
		return -1;
	return running(statistics, 1);
}

static void row_3(struct plan *plan)
{
	several(plan, 0, "im", "73");
}

/* The main container's ids are the init container's: no GetPreferredAllocation for it. */
static int row_3_check(const struct sim *sim, const struct statistics *statistics)
{
	if (statistics->counts[COUNT_ALLOCATIONS] != 2 || statistics->counts[COUNT_PREFERRED] != 1)
		return -1;
	return running(statistics, 1);
}

static void row_4(struct plan *plan)
{
	several(plan, 0, "im", "84")->shape.gpus = 2;
	several(plan, 500, "im", "84")->shape.gpus = 2;
}

/* The main container's four ids are any of the init container's eight; it is on both GPUs all the same. */
static int row_4_check(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_SEVERAL_GPUS] == 4 ? running(statistics, 2) : -1;
}

static void row_5(struct plan *plan)
{
	several(plan, 0, "im", "50");
	stays(plan, 1, 5);
}

static void row_6(struct plan *plan)
{
	several(plan, 0, "iism", "2212")->shape.crashes = 2;
}

static void row_7(struct plan *plan)
{
	several(plan, 0, "im", "33");
	stays(plan, 0, 2);
	fault(plan, 2000, INPUT_KILL_KUBELET, 0, 100);
	fault(plan, 1900, INPUT_SLOW_AGENT, 0, 3000);
}

/* The running container of the second is skipped; the finished init container of the first fails its pod, if
 * the agent is not back in time. */
static int row_7_check(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->reasons[REASON_UNHEALTHY] + statistics->counts[COUNT_RUNNING_AT_END] == 2 ? 0 : -1;
}

static void row_8(struct plan *plan)
{
	stays(plan, 500, 2)->shape.remakes = 2;
	fault(plan, 450, INPUT_KILL_AGENT, 0, 150);
}

static int row_8_check(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->reasons[REASON_UNHEALTHY] ? running(statistics, 1) : -1;
}

static void row_9(struct plan *plan)
{
	pod(plan, 0, 2, END_NEVER, 0)->shape.crashes = 3;
	fault(plan, 700, INPUT_KILL_AGENT, 0, 8000);
	fault(plan, 1500, INPUT_KILL_KUBELET, 0, 500);
}

static int row_9_check(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->reasons[REASON_UNHEALTHY] == 1 ? running(statistics, 0) : -1;
}

static void row_10(struct plan *plan)
{
	pod(plan, 0, 2, END_NEVER, 0)->shape.crashes = 1;
	fault(plan, 900, INPUT_KILL_KUBELET, 0, 50);
}

static int row_10_check(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->reasons[REASON_UNHEALTHY] + statistics->counts[COUNT_RUNNING_AT_END] == 1 ? 0 : -1;
}

static void row_11(struct plan *plan)
{
	several(plan, 0, "im", "22");
	stays(plan, 0, 3);
	fault(plan, 2000, INPUT_REBOOT, 0, 1000);
}

static int row_11_check(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->reasons[REASON_UNHEALTHY] + statistics->counts[COUNT_RUNNING_AT_END] == 2 ? 0 : -1;
}

static void row_12(struct plan *plan)
{
	stays(plan, 0, 2);
	stays(plan, 10, 3);
	fault(plan, 2000, INPUT_LOSE_CHECKPOINT, 0, 100);
	stays(plan, 6000, 2);
}

static void row_14(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	pod(plan, 0, 6, END_FORCED, 1000)->shape.grace_ms = 3000;
	stays(plan, 500, 6);
}

static int row_14_check(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_ORPHANS] == 1 ? running(statistics, 1) : -1;
}

/* The node is cut off; a pod of it is deleted by force and takes long to end; the next one is bound. */
static void orphan_of_a_silent_node(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	pod(plan, 0, 6, END_FORCED, 3000)->shape.grace_ms = 20000;
	fault(plan, 2000, INPUT_CUT_NODE, 0, 38000);
	stays(plan, 3500, 6);
}

/* And the scheduler that knew of it is gone: only the agent knows. */
static void orphan_that_only_the_agent_knows(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	pod(plan, 0, 6, END_FORCED, 3000)->shape.grace_ms = 30000;
	fault(plan, 2000, INPUT_CUT_NODE, 0, 12000);
	fault(plan, 3200, INPUT_KILL_RATION, 0, 500);
	stays(plan, 4500, 6);
}

/* What a storm of 2026-11-21 saw, two containers of 5 units on a GPU of 5 (docs/measurements/storm.md), by
 * faults that the storm has: a pod is deleted by force, the API server and the scheduler that knew of the pod
 * are killed, and the node finds the API server again after the next pod is bound, while the container of the
 * first still runs. */
static void two_on_a_gpu_for_one(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	plan->gpu_units[0][0] = 5;
	pod(plan, 0, 5, END_FORCED, 3000)->shape.grace_ms = 20000;
	fault(plan, 3002, INPUT_API_OUTAGE, 0, 800);
	fault(plan, 3002, INPUT_CUT_NODE, 0, 4000);
	fault(plan, 3100, INPUT_KILL_RATION, 0, 300);
	stays(plan, 3900, 5);
}

/* A running container of a deleted pod, and a person who changes what its node says of it. Nothing may be
 * bound to its GPU in these 45 s, which are longer than the time of an orphan that no node names. */
static void orphan_and_held(struct plan *plan, enum input_kind kind, uint8_t what, uint32_t ms)
{
	plan->n_gpus[0] = 1;
	pod(plan, 0, 6, END_FORCED, 1000)->shape.grace_ms = 45000;
	stays(plan, 1500, 6);
	fault(plan, 4000, kind, 0, ms)->b = what;
}

static void held_removed(struct plan *plan)
{
	orphan_and_held(plan, INPUT_HELD, HELD_REMOVED, 0);
}

static void held_emptied(struct plan *plan)
{
	orphan_and_held(plan, INPUT_HELD, HELD_EMPTIED, 0);
}

static void held_unreadable(struct plan *plan)
{
	orphan_and_held(plan, INPUT_HELD, HELD_UNREADABLE, 0);
	/* There is room, but for a node that says what nobody can read. */
	plan->inputs[0].shape.units[0] = 3;
	plan->inputs[1].at_ms = 4100;
	plan->inputs[1].shape.units[0] = 4;
}

static void held_lies(struct plan *plan)
{
	orphan_and_held(plan, INPUT_HELD, HELD_LIE, 0);
}

static void node_made_anew(struct plan *plan)
{
	orphan_and_held(plan, INPUT_NODE_ANEW, 0, 2000);
}

/* A pod is deleted by force while the watch of nodes shows nothing for 60 s, though it seems open, and the
 * agent renews its Lease. What the agent then says of the pod is not heard in the time of an orphan that no
 * node names. */
static void orphan_unheard_of(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	pod(plan, 0, 6, END_FORCED, 3000)->shape.grace_ms = 50000;
	fault(plan, 2000, INPUT_STALL_WATCH, (uint8_t)pair_watcher(0, W_RATION_NODES), 60000);
	stays(plan, 3500, 6);
}

static int nobody_waited(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_WAITS] ? -1 : running(statistics, 1);
}

static int held_is_restored(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_HELD_RESTORED] == 1 ? nobody_waited(sim, statistics) : -1;
}

static int one_waited(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_WAITS] ? running(statistics, 1) : -1;
}

static void row_16(struct plan *plan)
{
	stays(plan, 0, 2)->shape.by_hand = 0;
}

static void row_17(struct plan *plan)
{
	several(plan, 0, "mmm", "121")->shape.crashes = 2;
	several(plan, 1, "mmm", "121");
}

static void row_19(struct plan *plan)
{
	fault(plan, 0, INPUT_SLOW_AGENT, 0, 5000);
	stays(plan, 10, 2);
	stays(plan, 20, 2);
}

static void row_20(struct plan *plan)
{
	stays(plan, 0, 3);
	stays(plan, 0, 4);
	fault(plan, 1000, INPUT_GPU, 0, 6000);
	fault(plan, 2000, INPUT_RESIZE, 0, 0);
}

static int row_20_check(const struct sim *sim, const struct statistics *statistics)
{
	if (statistics->counts[COUNT_RESIZED] != 2 || statistics->counts[COUNT_RESIZE_DEFERRED] ||
		statistics->counts[COUNT_ALLOCATIONS] != 2)
		return -1;
	return running(statistics, 2);
}

static void row_21(struct plan *plan)
{
	stays(plan, 0, 3);
	stays(plan, 0, 4);
	fault(plan, 1000, INPUT_GPU, 0, 6000);
	fault(plan, 2000, INPUT_KILL_KUBELET, 0, 200);
}

static void row_22(struct plan *plan)
{
	plan->n_pairs = 2;
	plan->n_gpus[0] = 1;
	stays(plan, 1000, 5);
	fault(plan, 990, INPUT_BINDING, BINDING_LATE, 0);
	fault(plan, 1100, INPUT_KILL_PAIR, 0, 20000);
	stays(plan, 1200, 5);
}

/* Both are bound, the second by a scheduler that could not know of the first; the agent refuses one. */
static int row_22_check(const struct sim *sim, const struct statistics *statistics)
{
	return running(statistics, 1);
}

static void row_24(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	pod(plan, 0, 6, END_FORCED, 2300);
	fault(plan, 2000, INPUT_KILL_KUBELET, 0, 1500);
	stays(plan, 2400, 2);
	stays(plan, 2500, 6)->shape.remakes = 2;
}

static int row_24_check(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_RUNNING_AT_END] + statistics->reasons[REASON_NO_IDS] +
				       statistics->reasons[REASON_UNHEALTHY] >=
			       1
		       ? 0
		       : -1;
}

/* Found by the simulation. Seeds are those of the delays. */

static void filter_after_delete(struct plan *plan)
{
	plan->seed = 20061;
	plan->n_gpus[0] = 1;
	plan->spread[0] = true;
	pod(plan, 635, 2, END_DELETED, 2056);
	pod(plan, 4279, 1, END_DELETED, 1103)->shape.prebind_ms = 1939;
	stays(plan, 5243, 6);
	stays(plan, 1859, 2);
	stays(plan, 4251, 7);
	stays(plan, 2708, 3);
}

static void known_by_a_get_only(struct plan *plan)
{
	pod(plan, 42, 6, END_FORCED, 2164);
	fault(plan, 5, INPUT_CUT_WATCH, (uint8_t)agent_watcher(0), 2713);
}

static int asked_for(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_ASKED] ? 0 : -1;
}

static void restart_with_waiting_pods(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	pod(plan, 0, 8, END_DELETED, 3000);
	stays(plan, 500, 4);
	stays(plan, 600, 4);
	fault(plan, 2500, INPUT_KILL_RATION, 0, 4000);
}

static void name_returns(struct plan *plan)
{
	for (int i = 0; i < 4; i++)
		pod(plan, 10 * i, 2, END_FORCED, 150)->shape.remakes = 2;
	slow(plan, agent_watcher(0), 2000);
	slow(plan, kubelet_watcher(0), 1000);
	plan->n_nodes = 2;
	plan->n_gpus[1] = 2;
	plan->gpu_units[1][0] = plan->gpu_units[1][1] = 8;
}

static void deleted_in_a_gap(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	pod(plan, 0, 6, END_FORCED, 700)->shape.grace_ms = 3000;
	fault(plan, 1, INPUT_CUT_WATCH, (uint8_t)pair_watcher(0, W_RATION_PODS), 900);
	stays(plan, 720, 6);
}

static void bound_by_hand_on_a_held_gpu(struct plan *plan)
{
	plan->seed = 19999;
	plan->n_pairs = 2;
	plan->n_gpus[0] = 1;
	plan->gpu_units[0][0] = 7;
	plan->spread[0] = true;
	stays(plan, 1605, 1)->shape.prebind_ms = 3162;
	stays(plan, 2653, 7)->shape.by_hand = 0;
	fault(plan, 4787, INPUT_API_OUTAGE, 0, 2429);
}

static void listed_at_a_takeover(struct plan *plan)
{
	plan->seed = 25668;
	stays(plan, 693, 4);
	stays(plan, 1358, 1);
	stays(plan, 589, 2);
	stays(plan, 648, 1);
	stays(plan, 1398, 4)->shape.fate = FATE_EVICTED;
	fault(plan, 507, INPUT_API_OUTAGE, 0, 1090);
}

/* One pair leads for longer than its first 5 s, then the other, then the first again, whose watch has not
 * shown what the other has bound. */
static void back_at_once(struct plan *plan)
{
	plan->seed = 5;
	plan->n_pairs = 2;
	for (int i = 0; i < 4; i++)
		pod(plan, i * 1600, 1, END_DELETED, 500);
	fault(plan, 5300, INPUT_KILL_KUBE_SCHEDULER, 0, 100);
	fault(plan, 5350, INPUT_STALL_WATCH, (uint8_t)pair_watcher(0, W_RATION_PODS), 4000);
	stays(plan, 5600, 5);
	fault(plan, 6000, INPUT_KILL_KUBE_SCHEDULER, 1, 100);
	stays(plan, 6050, 5);
}

/* It lands, the answer is lost or an error, and sent again it is in conflict with itself; meanwhile somebody
 * waits. */
static void landed_unheard(struct plan *plan)
{
	plan->seed = 533;
	plan->n_gpus[0] = 1;
	plan->instances_max[0] = 3;
	slow(plan, pair_watcher(0, W_RATION_PODS), 2500);
	stays(plan, 0, 2);
	plan_add(plan, 1000, INPUT_SET)->b = 5;
	for (int i = 0; i < 25; i++)
		stays(plan, 1100 + i * 150, 5);
}

/* A pod is deleted by force, its containers live on, and the scheduler and the agent restart. Another pod is
 * granted more memory before the agent has its watch: only the agent's records tell of the first one. */
static void grows_beside_one_that_lives_on(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	plan->instances_max[0] = 3;
	stays(plan, 0, 2);
	pod(plan, 500, 6, END_FORCED, 1500)->shape.grace_ms = 8000;
	fault(plan, 1800, INPUT_KILL_AGENT, 0, 3500);
	fault(plan, 2200, INPUT_KILL_RATION, 0, 300);
	plan_add(plan, 3000, INPUT_SET)->b = 8;
}

/* Of a pod that runs on after a deletion by force, the agent hears in one breath that it was made smaller and
 * that it is gone. Another pod gets what was given back. */
static void shrinks_and_is_deleted_at_once(struct plan *plan)
{
	plan->n_gpus[0] = 2;
	plan->instances_max[0] = 3;
	pod(plan, 0, 8, END_FORCED, 3000)->shape.grace_ms = 60000;
	fault(plan, 2000, INPUT_STALL_WATCH, (uint8_t)agent_watcher(0), 3000);
	plan_add(plan, 2200, INPUT_SET)->b = 2;
	stays(plan, 5500, 6);
}

static int grows_in_the_end(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_SIZES] == 1 && sim->pods[0].limit_size == 1 ? running(statistics, 1)
										    : -1;
}

static void lost_answer(struct plan *plan)
{
	plan->n_gpus[0] = 1;
	fault(plan, 0, INPUT_BINDING, BINDING_ANSWER_LOST, 0);
	slow(plan, pair_watcher(0, W_RATION_PODS), 2500);
	stays(plan, 10, 5);
	stays(plan, 20, 5);
}

/* Gangs. */

static void gang(struct plan *plan, uint8_t min, bool group)
{
	plan->gangs[++plan->n_gangs] = (struct plan_gang){.min = min, .group = group};
}

/* Of the last gang. */
static struct input *member(struct plan *plan, int64_t at_ms, uint8_t units)
{
	struct input *input = stays(plan, at_ms, units);

	input->shape.gang = plan->n_gangs;
	return input;
}

static void gpus(struct plan *plan, const char *units)
{
	plan->n_gpus[0] = (uint8_t)strlen(units);
	for (size_t k = 0; units[k]; k++)
		plan->gpu_units[0][k] = units[k] == 'a' ? 10 : (uint8_t)(units[k] - '0');
}

/* Both members fail in a reboot; the one that is made anew comes before the scheduler has looked again. */
static void gang_made_anew(struct plan *plan)
{
	plan->seed = 733;
	gpus(plan, "aa");
	gang(plan, 2, true);
	member(plan, 252, 8)->shape.gpus = 2;
	member(plan, 257, 8)->shape.gpus = 2;
	plan->inputs[1].shape.remakes = 1;
	gang(plan, 2, false);
	member(plan, 1868, 14)->shape.gpus = 2;
	member(plan, 1886, 7);
	fault(plan, 7935, INPUT_REBOOT, 0, 1567);
	fault(plan, 8897, INPUT_KILL_AGENT, 0, 385);
}

/* One Binding is refused, one member ends, and its end is told late. */
static void gang_by_hearsay(struct plan *plan)
{
	plan->seed = 103;
	gpus(plan, "888");
	slow(plan, pair_watcher(0, W_RATION_PODS), 2500);
	gang(plan, 5, false);
	for (int i = 0; i < 4; i++)
		member(plan, 180 + 10 * i, 1);
	plan->inputs[2].shape.end = END_ITSELF;
	plan->inputs[2].shape.lifetime_ms = 250;
	plan->inputs[2].shape.remakes = 1;
	member(plan, 4608, 1);
	fault(plan, 1298, INPUT_BINDING, BINDING_THROTTLED, 0);
}

/* Filter was asked before the scheduler died, bind after it. */
static void gang_before_pod_groups(struct plan *plan)
{
	plan->seed = 24; /* PodGroups come late */
	gang(plan, 2, true);
	member(plan, 0, 2)->shape.prebind_ms = 2500;
	member(plan, 0, 2)->shape.prebind_ms = 4500;
	fault(plan, 1000, INPUT_KILL_RATION, 0, 400);
}

/* Members of ten units on GPUs of ten: small pods take turns on the GPU that is kept for nobody. */
static void gang_kept_twice(struct plan *plan)
{
	gpus(plan, "aa");
	gang(plan, 2, false);
	member(plan, 3049, 10);
	member(plan, 3053, 10);
	for (int i = 0; i < 36; i++)
		pod(plan, i * 3000, 5, END_ITSELF, 7000);
}

static void gang_on_several_gpus(struct plan *plan)
{
	gpus(plan, "766");
	several(plan, 10, "m", "9")->shape.units[0] = 15;
	plan->inputs[0].shape.gpus = 3;
	gang(plan, 2, false);
	member(plan, 146, 2)->shape.gpus = 2;
	member(plan, 167, 2)->shape.gpus = 2;
}

static int three_run(const struct sim *sim, const struct statistics *statistics)
{
	return running(statistics, 3);
}

/* Turned away while the others are on their way to bind; the room that it needs is free before they are
 * there, and nothing else happens. */
static void gang_spare_member(struct plan *plan)
{
	gpus(plan, "8");
	pod(plan, 0, 4, END_FORCED, 1000)->shape.grace_ms = 1500;
	gang(plan, 2, false);
	for (int i = 0; i < 3; i++)
		member(plan, 900 + i, 2)->shape.prebind_ms = 3500;
}

/* The later task of a Job, made when the process that saw the gang is gone. */
static void gang_forgotten(struct plan *plan)
{
	gang(plan, 2, false);
	for (int i = 0; i < 2; i++) {
		struct shape *shape = &member(plan, i, 4)->shape;

		shape->owner = 1;
		shape->end = END_ITSELF;
		shape->lifetime_ms = 1000;
	}
	fault(plan, 5000, INPUT_KILL_RATION, 0, 400);
	member(plan, 6000, 4)->shape.owner = 1;
}

static int four_run(const struct sim *sim, const struct statistics *statistics)
{
	return running(statistics, 4);
}

/* The small ones on the GPU for many, the large one on the GPU for one: GPUs that look alike but for that.
 */
static void gang_of_unequal_gpus(struct plan *plan)
{
	plan->n_nodes = 2;
	gpus(plan, "a");
	plan->instances_max[0] = 3;
	plan->n_gpus[1] = 1;
	plan->gpu_units[1][0] = 10;
	plan->instances_max[1] = 1;
	gang(plan, 4, false);
	member(plan, 0, 5);
	for (int i = 0; i < 3; i++)
		member(plan, 0, 3);
}

/* A pod that runs is labelled into a gang of which only one is there. */
static void gang_running_pod_labelled(struct plan *plan)
{
	stays(plan, 0, 2);
	gang(plan, 2, false);
	member(plan, 1000, 2);
	fault(plan, 3000, INPUT_LABEL, 0, 0)->b = 1;
}

/* A member that waits is labelled out of its gang: it goes by itself. */
static void gang_waiting_pod_leaves(struct plan *plan)
{
	gang(plan, 2, false);
	member(plan, 0, 2);
	fault(plan, 3000, INPUT_LABEL, 0, 0)->b = 0;
}

static void gang_and_change(struct plan *plan, uint8_t min, uint8_t changed)
{
	gang(plan, min, true);
	member(plan, 0, 2);
	member(plan, 18000, 2);
	fault(plan, 4000, INPUT_GROUP, 1, 0)->b = changed;
}

static void gang_group_lowered(struct plan *plan)
{
	gang_and_change(plan, 3, 2);
}

static void gang_group_raised(struct plan *plan)
{
	gang_and_change(plan, 2, 3);
}

static void gang_group_spoilt(struct plan *plan)
{
	gang_and_change(plan, 2, GROUP_MALFORMED);
}

/* Without it nothing says how many; the new one asks for as many as are there. */
static void gang_group_made_anew(struct plan *plan)
{
	gang_and_change(plan, 3, GROUP_DELETED);
	fault(plan, 30000, INPUT_GROUP, 1, 0)->b = 2;
}

/* A gang waits for a GPU that does not become free. The GPU that does is kept for it, and another gang, which
 * would fit there, waits too. That stays so while kube-scheduler asks for the first one's pods. It asks,
 * since by its sums the node has room. */
static void gang_kept_for_eleven_minutes(struct plan *plan)
{
	gpus(plan, "aa99");
	stays(plan, 0, 10);
	pod(plan, 0, 10, END_DELETED, 40000);
	gang(plan, 2, false);
	member(plan, 3000, 10);
	member(plan, 3000, 10);
	gang(plan, 1, false);
	member(plan, 6000, 10);
	fault(plan, 660000, INPUT_BINDING, BINDING_THROTTLED, 0);
}

/* Whole GPUs. */

static void whole_node(struct plan *plan, uint8_t n_gpus)
{
	plan->whole_gpus = plan->topology[0] = true;
	plan->n_gpus[0] = n_gpus;
}

/* The sidecar runs and keeps its GPU; the main container has crashed, and asks anew. */
static void whole_container_guessed(struct plan *plan)
{
	whole_node(plan, 4);
	several(plan, 0, "ism", "111")->shape.whole = true;
	plan->inputs[0].shape.crashes = 3;
	fault(plan, 2000, INPUT_LOSE_CHECKPOINT, 0, 150);
	fault(plan, 2100, INPUT_API_OUTAGE, 0, 700); /* the agent is back before the kubelet's pods are */
}

static int whole_container_refused(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->reasons[REASON_NOT_CLEAR] == 1 ? running(statistics, 0) : -1;
}

/* The kubelet loses its checkpoint. */

/* Both containers of the second pod end while the kubelet is away, so by their status they run. */
static void second_container_after_a_loss(struct plan *plan)
{
	plan->spread[0] = true;
	stays(plan, 0, 1);
	several(plan, 100, "mm", "21")->shape.crashes = 1;
	fault(plan, 160, INPUT_LOSE_CHECKPOINT, 0, 1200);
	fault(plan, 1300, INPUT_API_OUTAGE, 0, 700);
}

/* The kubelet asks for both containers again. */
static int both_were_asked_for_again(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->counts[COUNT_ALLOCATIONS] == 5 ? running(statistics, 2) : -1;
}

/* The kubelet lists the first pod although it is deleted and created again on the other GPU, and asks for the
 * second one, which is in back-off. */
static void name_made_anew_after_a_loss(struct plan *plan)
{
	struct shape *shape = &pod(plan, 0, 1, END_FORCED, 4000)->shape;

	shape->remakes = 1;
	shape->grace_ms = 3000;
	stays(plan, 20, 1)->shape.crashes = 3;
	stays(plan, 40, 6);
	fault(plan, 610, INPUT_LOSE_CHECKPOINT, 0, 20);
	fault(plan, 620, INPUT_API_OUTAGE, 0, 3000);
	fault(plan, 3600, INPUT_SLOW_AGENT, 0, 2000);
}

static int one_call_is_not_clear(const struct sim *sim, const struct statistics *statistics)
{
	return statistics->reasons[REASON_NOT_CLEAR] == 1 ? running(statistics, 1) : -1;
}

static const struct sim_case cases[] = {
	{"row-01-containers-of-equal-size", "pods {2,3} and {2}: matched by the kubelet's list, not by size",
		row_1, two_run},
	{"row-02-rejected-before-and-after-allocate", "the next pod of equal size gets its own card", row_2,
		row_2_check},
	{"row-03-init-containers-reuse-ids", "GetPreferredAllocation is not called for reused ids", row_3,
		row_3_check},
	{"row-04-random-subset-of-reused-ids", "gpu-count 2: ids of any card; both cards are the placement's",
		row_4, row_4_check},
	{"row-05-init-containers-are-not-listed", "PodResources leaves them out; the record has them", row_5,
		two_run},
	{"row-06-equal-sets-of-ids", "PreStartContainer finds the pod, whichever container it is", row_6,
		one_runs},
	{"row-07-slow-registration-after-a-kubelet-restart",
		"finished init containers fail their pod, running ones not", row_7, row_7_check},
	{"row-08-agent-dead-when-a-pod-comes", "rejected and counted; its replacement runs", row_8,
		row_8_check},
	{"row-09-agent-dead-kubelet-restarted-container-in-back-off", "rejected for good, and counted", row_9,
		row_9_check},
	{"row-10-container-restarts-before-registration",
		"PreStartContainer is skipped and the cached answer holds, or the pod is rejected as in row 9",
		row_10, row_10_check},
	{"row-11-reboot", "no Allocate call: PreStartContainer writes the CDI file again", row_11,
		row_11_check},
	{"row-12-checkpoint-lost",
		"running pods go on; a new one is served or refused by name, never a wrong card", row_12,
		NULL},
	{"row-13-topology",
		"not simulated: no TopologyInfo is published, so the kubelet has no aligned set (test_agent.py: test_ids_are_short_and_have_no_topology)",
		NULL, NULL},
	{"row-14-force-delete", "the next pod does not fit before the containers are gone", row_14,
		row_14_check},
	{"row-15-static-pods",
		"not simulated: refused by the kubelet's annotation (test_agent.py: test_static_pod_is_refused)",
		NULL, NULL},
	{"row-16-bound-by-hand", "a pod that nobody placed holds units of the node and never runs", row_16,
		nobody_runs},
	{"row-17-assigned-is-only-a-hint", "containers after the first are served too", row_17, two_run},
	{"row-18-answer-for-gpu-core", "not simulated: gpu-core.percentage is not offered yet", NULL, NULL},
	{"row-19-slow-preferred-allocation", "late answers fail nobody", row_19, two_run},
	{"row-20-resize-in-place", "no call, and ids in use stay healthy: a sick card puts no resize off",
		row_20, row_20_check},
	{"row-21-sick-card-and-a-kubelet-restart", "ids in use stay healthy: running pods go on", row_21,
		two_run},
	{"row-22-fail-over", "the dead leader's Binding lands late: the agent's total refuses one of the two",
		row_22, row_22_check},
	{"row-23-gpu-count-alone",
		"not simulated: no plugin stands behind it, admission refuses it (test_policies_requests.py: test_request_that_can_never_be_met_is_refused_by_container_value_and_rule)",
		NULL, NULL},
	{"row-24-first-batch-after-a-kubelet-restart", "ids of pods that are gone are not free yet", row_24,
		row_24_check},
	{"found-filter-after-delete", "a hold for a pod that was deleted while kube-scheduler asked",
		filter_after_delete, NULL},
	{"found-pod-known-by-a-get-only", "deleted before the agent's watch had shown it",
		known_by_a_get_only, asked_for},
	{"found-restart-with-waiting-pods", "rejected by a process that is gone; freed while nobody looked",
		restart_with_waiting_pods, two_run},
	{"found-name-that-returns", "a pod is made anew under its name faster than the kubelet hears of it",
		name_returns, NULL},
	{"found-deleted-in-a-gap-of-the-watch", "the last state is unknown: its containers may live",
		deleted_in_a_gap, one_runs},
	{"found-bound-by-hand-on-a-held-card", "the hold is of no use any more and must end",
		bound_by_hand_on_a_held_gpu, NULL},
	{"found-listed-at-a-takeover", "ended between the list of a node and the watch's LIST",
		listed_at_a_takeover, NULL},
	{"found-leadership-back-at-once",
		"a kube-scheduler that was started again, within 2 s of the last call", back_at_once,
		two_run},
	{"found-size-landed-unheard", "a PATCH that is sent again is in conflict with its own landing",
		landed_unheard, one_runs},
	{"found-size-beside-one-that-lives-on", "the agent is back and has only its records: no growth yet",
		grows_beside_one_that_lives_on, grows_in_the_end},
	{"found-size-of-one-deleted-at-once", "it runs on: the smaller size that is told must be given",
		shrinks_and_is_deleted_at_once, one_runs},
	{"found-gang-made-anew", "who comes when the last of a gang has just gone is of another one",
		gang_made_anew, NULL},
	{"found-gang-by-hearsay", "who is only said to be bound does not make a gang whole", gang_by_hearsay,
		NULL},
	{"found-gang-before-pod-groups", "bind before anybody knows how many they have to be",
		gang_before_pod_groups, two_run},
	{"found-gang-kept-twice", "two members have the same card kept for them", gang_kept_twice, two_run},
	{"found-gang-on-several-cards", "the order of the cards matters though all members are alike",
		gang_on_several_gpus, three_run},
	{"found-gang-spare-member", "who found no room beside the others is woken later", gang_spare_member,
		three_run},
	{"found-gang-of-unequal-cards", "cards that differ by how many containers they may have",
		gang_of_unequal_gpus, four_run},
	{"found-gang-forgotten", "after a restart those who have finished tell that a gang has run",
		gang_forgotten, one_runs},
	{"found-gang-kept-for-eleven-minutes",
		"kube-scheduler asks for its pods all the time: its turn is not another gang's",
		gang_kept_for_eleven_minutes, one_runs},
	{"gang-running-pod-labelled", "it was not of the gang when it was bound, and does not count",
		gang_running_pod_labelled, one_runs},
	{"gang-waiting-pod-leaves", "without its label it is a pod like any other", gang_waiting_pod_leaves,
		one_runs},
	{"gang-group-lowered", "so many are there already", gang_group_lowered, two_run},
	{"gang-group-raised", "so many are not there", gang_group_raised, nobody_runs},
	{"gang-group-spoilt", "a minMember that is no number: its pods wait", gang_group_spoilt, nobody_runs},
	{"gang-group-made-anew", "while there is none its pods wait", gang_group_made_anew, two_run},
	{"found-whole-container-guessed",
		"each container has cards of its own; the kubelet does not say whose it means",
		whole_container_guessed, whole_container_refused},
	{"found-second-container-after-a-loss",
		"a pod that has some of its devices asks for the others, whatever its old status says",
		second_container_after_a_loss, both_were_asked_for_again},
	{"found-name-made-anew-after-a-loss",
		"a new pod is not the one that is meant while the kubelet may list the pod before it",
		name_made_anew_after_a_loss, one_call_is_not_clear},
	{"orphan-of-a-silent-node", "what a node cannot say does not mean that its containers ended",
		orphan_of_a_silent_node, nobody_waited},
	{"orphan-that-only-the-agent-knows", "a new container waits until the orphan has ended",
		orphan_that_only_the_agent_knows, one_waited},
	{"orphan-of-the-storm", "two of 5 units never run on a card of 5", two_on_a_gpu_for_one, one_waited},
	{"orphan-and-held-removed", "ration.dev/held is taken away while a container needs it", held_removed,
		held_is_restored},
	{"orphan-and-held-emptied", "likewise, it says that nothing runs", held_emptied, held_is_restored},
	{"orphan-and-held-unreadable",
		"likewise, nobody can read it: no pod comes until the agent has mended it", held_unreadable,
		held_is_restored},
	{"orphan-and-held-lies",
		"likewise, it says that the container ended: the agent, which knows, lets none start",
		held_lies, one_waited},
	{"orphan-and-node-made-anew", "likewise, the Node object is deleted and comes back without it",
		node_made_anew, held_is_restored},
	{"orphan-unheard-of", "a watch of nodes that shows nothing does not mean that no container runs",
		orphan_unheard_of, nobody_waited},
	{"answer-of-a-binding-lost", "in doubt, the card stays reserved", lost_answer, one_runs},
};

const struct sim_case *case_list(size_t *ret_n)
{
	*ret_n = sizeof(cases) / sizeof(cases[0]);
	return cases;
}

void case_plan(const struct sim_case *c, struct plan *ret_plan)
{
	*ret_plan = (struct plan){
		.seed = 1, .n_nodes = 1, .n_pairs = 1, .n_gpus = {2}, .gpu_units = {{8, 8}}};
	for (size_t i = 0; i < WATCHERS_MAX; i++)
		ret_plan->slow_watch[i] = 30;
	c->plan(ret_plan);
}

int case_check(const struct sim_case *c, const struct sim *sim, const struct statistics *statistics)
{
	if (sim->truncated) {
		printf("# a limit of the simulation was reached\n");
		return 1;
	}
	return c->check ? c->check(sim, statistics) : 0;
}

void case_print_list(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		printf("%s\n    %s\n", cases[i].name, cases[i].why);
}
