#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "sim/state/processes.h"
#include "sim/state/tree.h"

static char dir[] = "/tmp/test-sim-state-XXXXXX";
static char path[256];

static void write_part(const char *name, const void *data, size_t length)
{
	snprintf(path, sizeof(path), "%s/state/%s", dir, name);
	assert_int_equal(fs_write_atomic(path, 0666, data, length), 0);
}

static void write_state(uint64_t magic, uint32_t version, uint32_t count)
{
	_cleanup_free_ struct sim_state *s = calloc(1, sizeof(*s));

	s->magic = magic;
	s->version = version;
	s->size = sizeof(*s);
	s->gpu_count = count;
	write_part("cards", s, sizeof(*s));
}

static struct sim_state *map_state(void)
{
	struct sim_state *s = NULL;
	bool writable = false;

	write_state(SIM_STATE_MAGIC, SIM_STATE_VERSION, 2);
	assert_int_equal(sim_state_map(dir, &s, &writable), 0);
	assert_true(writable);
	return s;
}

static void open_table(struct sim_processes *ret_processes)
{
	_cleanup_free_ struct sim_process_table *table = calloc(1, sizeof(*table));

	sim_processes_prepare(table);
	write_part("processes", table, sizeof(*table));
	assert_int_equal(sim_processes_open(dir, ret_processes), 0);
}

static int set_up(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/state", dir);
	return mkdir(path, 0755);
}

static int tear_down(void **state)
{
	static const char *const names[] = {"state/cards", "state/processes", "state", ""};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		remove(path);
	}
	return 0;
}

static void state_of_another_kind_is_not_mapped(void **state)
{
	struct sim_state *s = NULL;
	bool writable;

	write_state(SIM_STATE_MAGIC + 1, SIM_STATE_VERSION, 2);
	assert_int_equal(sim_state_map(dir, &s, &writable), -EBADMSG);
	write_state(SIM_STATE_MAGIC, SIM_STATE_VERSION + 1, 2);
	assert_int_equal(sim_state_map(dir, &s, &writable), -EBADMSG);
	write_state(SIM_STATE_MAGIC, SIM_STATE_VERSION, 0);
	assert_int_equal(sim_state_map(dir, &s, &writable), -EBADMSG);
	write_state(SIM_STATE_MAGIC, SIM_STATE_VERSION, SIM_MAX_GPUS + 1);
	assert_int_equal(sim_state_map(dir, &s, &writable), -EBADMSG);
	assert_null(s);
}

static void truncated_state_is_not_mapped(void **state)
{
	_cleanup_free_ struct sim_state *short_state = calloc(1, sizeof(*short_state));
	struct sim_state *s = NULL;
	bool writable;

	short_state->magic = SIM_STATE_MAGIC;
	write_part("cards", short_state, sizeof(*short_state) - 1);
	assert_int_equal(sim_state_map(dir, &s, &writable), -EBADMSG);
	write_part("cards", "", 0);
	assert_int_equal(sim_state_map(dir, &s, &writable), -EBADMSG);
}

static void no_state_is_no_tree(void **state)
{
	struct sim_state *s = NULL;
	bool writable;

	assert_int_equal(sim_state_map("/nonexistent", &s, &writable), -ENOENT);
	assert_int_equal(sim_state_map("/dev/null", &s, &writable), -ENOENT);
}

static void events_are_read_in_order(void **state)
{
	struct sim_state *s = map_state();
	struct sim_event event;

	assert_int_equal(sim_state_read_event(s, 1, &event), -EAGAIN);
	sim_state_post_event(s, 1, 8, 79);
	sim_state_post_event(s, 0, 2, 0);
	assert_int_equal(sim_state_read_event(s, 1, &event), 0);
	assert_int_equal(event.gpu, 1);
	assert_int_equal(event.type, 8);
	assert_int_equal(event.data, 79);
	assert_int_equal(sim_state_read_event(s, 2, &event), 0);
	assert_int_equal(event.gpu, 0);
	assert_int_equal(sim_state_read_event(s, 3, &event), -EAGAIN);
	sim_state_unmap(s);
}

static void overwritten_event_is_told_apart_from_one_to_come(void **state)
{
	struct sim_state *s = map_state();
	struct sim_event event;

	for (uint64_t i = 1; i <= SIM_EVENT_RING + 1; i++)
		sim_state_post_event(s, 0, 8, i);
	assert_int_equal(sim_state_read_event(s, 1, &event), -ENODATA);
	assert_int_equal(sim_state_read_event(s, 2, &event), 0);
	assert_int_equal(event.data, 2);
	assert_int_equal(sim_state_read_event(s, SIM_EVENT_RING + 1, &event), 0);
	assert_int_equal(sim_state_read_event(s, SIM_EVENT_RING + 2, &event), -EAGAIN);
	sim_state_unmap(s);
}

/* What a writer killed in the middle leaves: a cleared slot that was never announced. */
static void half_written_event_is_never_read(void **state)
{
	struct sim_state *s = map_state();
	struct sim_event event;

	sim_state_post_event(s, 0, 8, 13);
	atomic_store(&s->events[2].type, 8);
	atomic_store(&s->events[2].data, 99);
	assert_int_equal(sim_state_read_event(s, 2, &event), -EAGAIN);
	sim_state_post_event(s, 1, 8, 79);
	assert_int_equal(sim_state_read_event(s, 2, &event), 0);
	assert_int_equal(event.data, 79);
	sim_state_unmap(s);
}

static void waiting_ends_when_an_event_comes(void **state)
{
	struct sim_state *s = map_state();
	pid_t child = fork();
	int status;

	if (child == 0) {
		for (int i = 0; i < 200 && atomic_load(&s->last_event) == 0; i++)
			sim_state_wait_event(s, 0, 50000000);
		_exit(atomic_load(&s->last_event) == 1 ? 0 : 1);
	}
	usleep(20000);
	sim_state_post_event(s, 0, 8, 1);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	sim_state_unmap(s);
}

/* A child that holds 5 bytes of GPU 1 until its pipe is closed. */
static pid_t start_holder(int *ret_end)
{
	int ends[2], ready[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		struct sim_processes own;
		struct sim_process *slot;

		close(ends[1]);
		close(ready[0]);
		if (sim_processes_open(dir, &own) < 0 || sim_processes_claim(&own, &slot) < 0)
			_exit(1);
		atomic_store(&slot->bytes[1], 5);
		if (write(ready[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 0)
			_exit(2);
		_exit(0); /* without releasing the slot, like one that was killed */
	}
	close(ends[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*ret_end = ends[1];
	return child;
}

static void living_process_is_listed_with_its_memory(void **state)
{
	struct sim_processes table;
	struct sim_process_view view = {};
	int end;
	pid_t child;

	open_table(&table);
	child = start_holder(&end);
	assert_int_equal(sim_processes_list(&table, 1, &view, 1), 1);
	assert_int_equal(view.pid, child);
	assert_int_equal(view.bytes, 5);
	assert_int_equal(sim_processes_used(&table, 1), 5);
	assert_int_equal(sim_processes_list(&table, 0, &view, 1), 0);
	close(end);
	waitpid(child, NULL, 0);
}

static void dead_process_holds_nothing_and_leaves_its_slot(void **state)
{
	struct sim_processes table;
	int end;
	pid_t child;

	open_table(&table);
	child = start_holder(&end);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(end);
	assert_int_equal(atomic_load(&table.table->slots[0].pid), child);
	assert_int_equal(sim_processes_used(&table, 1), 0);
	assert_int_equal(atomic_load(&table.table->slots[0].pid), 0);
}

static void own_memory_counts_and_release_gives_it_back(void **state)
{
	struct sim_processes table;
	struct sim_process *slot;

	open_table(&table);
	assert_int_equal(sim_processes_claim(&table, &slot), 0);
	atomic_store(&slot->bytes[0], 7);
	assert_int_equal(sim_processes_used(&table, 0), 7);
	sim_processes_release(&table, slot);
	assert_int_equal(sim_processes_used(&table, 0), 0);
	sim_processes_release(&table, NULL);
}

/* As two libraries of one process would: each has its own copy of this code and its own descriptor. */
static void second_claim_of_a_process_takes_another_slot(void **state)
{
	struct sim_processes table, second;
	struct sim_process *a, *b;

	open_table(&table);
	assert_int_equal(sim_processes_open(dir, &second), 0);
	assert_int_equal(sim_processes_claim(&table, &a), 0);
	assert_int_equal(sim_processes_claim(&second, &b), 0);
	assert_int_not_equal(a - table.table->slots, b - second.table->slots);
	sim_processes_release(&table, a);
	sim_processes_release(&second, b);
}

static void forked_child_does_not_hold_its_parents_memory(void **state)
{
	struct sim_processes table;
	int end;
	pid_t child, grandchild;
	char byte;
	int hold[2], told[2];

	open_table(&table);
	assert_int_equal(pipe(hold), 0);
	assert_int_equal(pipe(told), 0);
	child = fork();
	if (child == 0) {
		struct sim_processes own;
		struct sim_process *slot;

		if (sim_processes_open(dir, &own) < 0 || sim_processes_claim(&own, &slot) < 0)
			_exit(1);
		atomic_store(&slot->bytes[0], 9);
		grandchild = fork();
		if (grandchild == 0) {
			close(hold[1]);
			byte = (char)read(hold[0], &byte, 1);
			_exit(0);
		}
		if (write(told[1], &grandchild, sizeof(grandchild)) != sizeof(grandchild))
			_exit(2);
		_exit(0);
	}
	assert_int_equal(read(told[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	waitpid(child, NULL, 0);
	assert_int_equal(kill(grandchild, 0), 0);
	assert_int_equal(sim_processes_used(&table, 0), 0);
	end = hold[1];
	close(end);
}

static void full_table_refuses_and_says_so(void **state)
{
	struct sim_processes table;
	struct sim_process *slot, *first = NULL;

	open_table(&table);
	for (int i = 0; i < SIM_MAX_PROCESSES; i++) {
		assert_int_equal(sim_processes_claim(&table, &slot), 0);
		first = first ? first : slot;
	}
	assert_int_equal(sim_processes_claim(&table, &slot), -EBUSY);
	sim_processes_release(&table, first);
	assert_int_equal(sim_processes_claim(&table, &slot), 0);
}

static void damaged_table_is_not_opened(void **state)
{
	struct sim_processes table;

	write_part("processes", "x", 1);
	assert_int_equal(sim_processes_open(dir, &table), -EBADMSG);
	assert_int_equal(sim_processes_open("/nonexistent", &table), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_of_another_kind_is_not_mapped),
		cmocka_unit_test(truncated_state_is_not_mapped),
		cmocka_unit_test(no_state_is_no_tree),
		cmocka_unit_test(events_are_read_in_order),
		cmocka_unit_test(overwritten_event_is_told_apart_from_one_to_come),
		cmocka_unit_test(half_written_event_is_never_read),
		cmocka_unit_test(waiting_ends_when_an_event_comes),
		cmocka_unit_test(living_process_is_listed_with_its_memory),
		cmocka_unit_test(dead_process_holds_nothing_and_leaves_its_slot),
		cmocka_unit_test(own_memory_counts_and_release_gives_it_back),
		cmocka_unit_test(second_claim_of_a_process_takes_another_slot),
		cmocka_unit_test(forked_child_does_not_hold_its_parents_memory),
		cmocka_unit_test(full_table_refuses_and_says_so),
		cmocka_unit_test(damaged_table_is_not_opened),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
