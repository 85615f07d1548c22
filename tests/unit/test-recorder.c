#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "scheduler/recorder.h"

static struct recorder *recorder_open(void)
{
	struct recorder *recorder = NULL;

	assert_int_equal(recorder_new(&recorder), 0);
	return recorder;
}

static void add_named(struct recorder *recorder, const char *name)
{
	recorder_add(recorder, &(struct decision){.kind = DECISION_BIND, .uid = "u", .name = name});
}

static void everything_a_decision_says_is_kept(void **state)
{
	char node[] = "node-a", reason[] = "no GPU has 3 units free", uuid[] = "GPU-1";
	struct decision_node nodes[] = {{.name = node, .score = 10}, {.name = "node-b", .score = 9}};
	struct decision_reason reasons[] = {{.text = reason, .nodes = 4998}};
	struct decision_gpu gpus[] = {{.uuid = uuid, .index = 2, .units_free = 7, .units_total = 15}};
	struct recorder *recorder = recorder_open();
	const struct decision *kept;
	size_t cursor = 0;

	recorder_add(recorder, &(struct decision){.kind = DECISION_FILTER,
				       .time_ns = 5,
				       .uid = "uid",
				       .namespace_ = "default",
				       .name = "p",
				       .units = 3,
				       .n_asked = 5000,
				       .n_fitting = 2,
				       .nodes = nodes,
				       .n_nodes = 2,
				       .reasons = reasons,
				       .n_reasons = 1,
				       .node = node,
				       .policy = "spread",
				       .n_gpus_fitting = 4,
				       .gpus = gpus,
				       .n_gpus = 1});
	/* What the caller had may go. */
	memset(node, 'x', sizeof(node) - 1);
	memset(reason, 'x', sizeof(reason) - 1);
	memset(uuid, 'x', sizeof(uuid) - 1);
	memset(nodes, 0, sizeof(nodes));

	kept = recorder_next(recorder, &cursor);
	assert_non_null(kept);
	assert_null(recorder_next(recorder, &cursor));
	assert_int_equal(kept->kind, DECISION_FILTER);
	assert_int_equal(kept->number, 1);
	assert_string_equal(kept->name, "p");
	assert_string_equal(kept->node, "node-a");
	assert_string_equal(kept->policy, "spread");
	assert_string_equal(kept->text, "");
	assert_int_equal(kept->n_nodes, 2);
	assert_string_equal(kept->nodes[0].name, "node-a");
	assert_int_equal(kept->nodes[1].score, 9);
	assert_string_equal(kept->reasons[0].text, "no GPU has 3 units free");
	assert_int_equal(kept->reasons[0].nodes, 4998);
	assert_string_equal(kept->gpus[0].uuid, "GPU-1");
	assert_int_equal(kept->gpus[0].units_total, 15);
	recorder_free(recorder);
}

static void the_ring_keeps_the_last_10000_in_order(void **state)
{
	struct recorder *recorder = recorder_open();
	const struct decision *kept;
	uint64_t expected = 15001;
	size_t cursor = 0;

	for (uint64_t i = 0; i < 25000; i++)
		add_named(recorder, "p");
	assert_int_equal(recorder_count(recorder), 10000);
	while ((kept = recorder_next(recorder, &cursor)))
		assert_int_equal(kept->number, expected++);
	assert_int_equal(expected, 25001);
	recorder_free(recorder);
}

/* Names of 253 bytes, sixteen nodes, all reasons: what a hostile cluster can do to us. */
static void memory_is_bounded_whatever_the_names_are(void **state)
{
	struct decision_node nodes[DECISION_NODES_MAX + 5];
	struct recorder *recorder = recorder_open();
	size_t before = mallinfo2().uordblks;
	char name[254];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (size_t i = 0; i < DECISION_NODES_MAX + 5; i++)
		nodes[i] = (struct decision_node){.name = name};
	for (uint64_t i = 0; i < 30000; i++)
		recorder_add(recorder, &(struct decision){.number = i,
					       .name = name,
					       .node = name,
					       .nodes = nodes,
					       .n_nodes = DECISION_NODES_MAX + 5});
	assert_true(recorder_bytes(recorder) <= 8u << 20);
	assert_true(recorder_count(recorder) > 1000);
	/* The sanitizer's allocator counts nothing here. */
	assert_true(mallinfo2().uordblks - before < 9u << 20);
	recorder_free(recorder);
}

static void lists_are_cut_at_their_maximum(void **state)
{
	struct decision_node nodes[DECISION_NODES_MAX + 1];
	struct recorder *recorder = recorder_open();
	size_t cursor = 0;

	for (size_t i = 0; i < DECISION_NODES_MAX + 1; i++)
		nodes[i] = (struct decision_node){.name = "n"};
	recorder_add(recorder, &(struct decision){.nodes = nodes, .n_nodes = DECISION_NODES_MAX + 1});
	assert_int_equal(recorder_next(recorder, &cursor)->n_nodes, DECISION_NODES_MAX);
	recorder_free(recorder);
}

static void victims_are_kept_and_those_over_the_maximum_counted(void **state)
{
	struct decision_victim victims[DECISION_VICTIMS_MAX + 3];
	struct recorder *recorder = recorder_open();
	const struct decision *kept;
	char name[] = "v";
	size_t cursor = 0;

	for (size_t i = 0; i < DECISION_VICTIMS_MAX + 3; i++)
		victims[i] = (struct decision_victim){
			.uid = "u", .namespace_ = "default", .name = name, .priority = -(int32_t)i};
	recorder_add(recorder, &(struct decision){.kind = DECISION_PREEMPT,
				       .victims = victims,
				       .n_victims = DECISION_VICTIMS_MAX + 3,
				       .n_victims_unnamed = 2});
	name[0] = 'x';
	memset(victims, 0, sizeof(victims));
	kept = recorder_next(recorder, &cursor);
	assert_int_equal(kept->n_victims, DECISION_VICTIMS_MAX);
	assert_int_equal(kept->n_victims_unnamed, 5);
	assert_string_equal(kept->victims[DECISION_VICTIMS_MAX - 1].name, "v");
	assert_int_equal(kept->victims[DECISION_VICTIMS_MAX - 1].priority, 1 - DECISION_VICTIMS_MAX);
	recorder_free(recorder);
}

static void a_ring_that_wrapped_frees_everything(void **state)
{
	struct recorder *recorder = recorder_open();

	for (uint64_t i = 0; i < DECISIONS_MAX + 3; i++)
		add_named(recorder, "p");
	recorder_free(recorder); /* the leak checker of the sanitized run tells */
	recorder_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_a_decision_says_is_kept),
		cmocka_unit_test(the_ring_keeps_the_last_10000_in_order),
		cmocka_unit_test(memory_is_bounded_whatever_the_names_are),
		cmocka_unit_test(lists_are_cut_at_their_maximum),
		cmocka_unit_test(victims_are_kept_and_those_over_the_maximum_counted),
		cmocka_unit_test(a_ring_that_wrapped_frees_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
