/* usage.c - what each process did on each GPU: exact numbers that no interface of a driver shows. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/options.h"
#include "sim/state/account.h"
#include "sim/state/tree.h"

static const char *const engine_names[SIM_ENGINES] = {
	[SIM_SM] = "smNs", [SIM_COPY_IN] = "copyInNs", [SIM_COPY_OUT] = "copyOutNs"};

static void add_engines(struct json_object *object, const struct sim_account *account)
{
	for (size_t e = 0; e < SIM_ENGINES; e++)
		json_object_object_add(object, engine_names[e],
			json_object_new_int64((int64_t)atomic_load(&account->done[e])));
}

/* Work that was submitted and is not done; some of its kernels may have begun. */
static uint64_t pending(const struct sim_work *work, size_t row, enum sim_engine engine)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SIM_MAX_LINES && i < atomic_load(&work->line_count); i++) {
		const struct sim_line *line = &work->lines[i];

		if (atomic_load(&line->taken) && line->account == row && line->engine == engine)
			sum += atomic_load(&line->submitted) - atomic_load(&line->done);
	}
	return sum;
}

/* Returns 0 if the process has ended and belonged to another pid namespace. */
static pid_t pid_of(const struct sim_processes *processes, const struct sim_account *account, bool *ret_alive)
{
	struct stat st;
	pid_t pid = 0;

	*ret_alive = sim_account_slot(processes, account, &pid) != NULL;
	if (!*ret_alive && stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == account->pid_namespace)
		pid = (pid_t)account->pid;
	return pid;
}

static struct json_object *process_of(
	const struct sim_work *work, const struct sim_processes *processes, size_t row)
{
	const struct sim_account *account = &work->accounts[row];
	struct json_object *object = json_object_new_object();
	bool alive;
	pid_t pid = pid_of(processes, account, &alive);

	json_object_object_add(object, "card", json_object_new_int64(account->gpu));
	json_object_object_add(object, "pid", pid ? json_object_new_int(pid) : NULL);
	json_object_object_add(object, "ownPid", json_object_new_int64(account->pid));
	json_object_object_add(object, "startTicks", json_object_new_int64((int64_t)account->start_ticks));
	json_object_object_add(object, "alive", json_object_new_boolean(alive));
	add_engines(object, account);
	json_object_object_add(
		object, "pendingSmNs", json_object_new_int64((int64_t)pending(work, row, SIM_SM)));
	json_object_object_add(
		object, "kernelsLaunched", json_object_new_int64((int64_t)atomic_load(&account->launched)));
	return object;
}

static void print_json(
	const struct sim_work *work, const struct sim_processes *processes, uint32_t gpu_count, int flags)
{
	struct json_object *document = json_object_new_object();
	struct json_object *gpus = json_object_new_array(), *rows = json_object_new_array();

	for (uint32_t i = 0; i < gpu_count; i++) {
		struct json_object *gpu = json_object_new_object();

		json_object_object_add(gpu, "card", json_object_new_int64(i));
		json_object_object_add(gpu, "atNs", json_object_new_int64(atomic_load(&work->gpus[i].clock)));
		add_engines(gpu, &work->gpus[i].total);
		json_object_array_add(gpus, gpu);
	}
	for (size_t i = 0; i < sim_accounts(work); i++)
		if (atomic_load(&work->accounts[i].taken))
			json_object_array_add(rows, process_of(work, processes, i));
	json_object_object_add(document, "cards", gpus);
	json_object_object_add(document, "processes", rows);
	puts(json_object_to_json_string_ext(document, flags));
	json_object_put(document);
}

static void print_row(const char *who, const struct sim_account *account)
{
	printf("%-4u  %10s", account->gpu, who);
	for (size_t e = 0; e < SIM_ENGINES; e++)
		printf("  %12.3f", (double)atomic_load(&account->done[e]) / 1e9);
	printf("  %10llu\n", (unsigned long long)atomic_load(&account->launched));
}

static void print_table(
	const struct sim_work *work, const struct sim_processes *processes, uint32_t gpu_count)
{
	printf("%-4s  %10s  %12s  %12s  %12s  %10s\n", "CARD", "PID", "KERNELS s", "COPIES IN s", "OUT s",
		"LAUNCHED");
	for (uint32_t gpu = 0; gpu < gpu_count; gpu++) {
		struct sim_account total = work->gpus[gpu].total;

		total.gpu = gpu;
		for (size_t i = 0; i < sim_accounts(work); i++) {
			const struct sim_account *account = &work->accounts[i];
			char who[16];
			bool alive;

			if (!atomic_load(&account->taken) || account->gpu != gpu)
				continue;
			snprintf(who, sizeof(who), "%d", pid_of(processes, account, &alive));
			print_row(alive ? who : "(gone)", account);
			total.launched += atomic_load(&account->launched);
		}
		print_row("all", &total);
	}
}

static void look_at_all(
	struct sim_work *work, const struct sim_processes *processes, uint32_t gpu_count, bool writable)
{
	for (uint32_t i = 0; writable && i < gpu_count; i++)
		sim_work_look(work, processes, i);
}

/* Repeats by the clock, so that the interval does not drift, until the reader closes the pipe. */
static void print_again_and_again(struct sim_work *work, const struct sim_processes *processes,
	uint32_t gpu_count, bool writable, uint32_t every_ms)
{
	int64_t next = monotonic_ns();

	for (;;) {
		struct timespec at = {next / NS_PER_S, next % NS_PER_S};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		look_at_all(work, processes, gpu_count, writable);
		print_json(work, processes, gpu_count, JSON_C_TO_STRING_PLAIN);
		if (fflush(stdout) == EOF)
			return;
		next += every_ms * NS_PER_MS;
	}
}

static int show(const char *dir, bool json, uint32_t every_ms, struct error *err)
{
	struct sim_processes processes;
	struct sim_work *work = NULL;
	struct sim_state *state;
	bool writable;
	int r = tree_map(dir, &state, err);

	if (r < 0)
		return r;
	r = sim_work_map(dir, &work, &writable);
	if (r == 0)
		r = sim_processes_open(dir, &processes);
	if (r < 0) {
		sim_work_unmap(work);
		sim_state_unmap(state);
		return error_set(err, -r, "%s/state/work: %s", dir, strerror(-r));
	}
	if (every_ms)
		print_again_and_again(work, &processes, state->gpu_count, writable, every_ms);
	look_at_all(work, &processes, state->gpu_count, writable);
	if (json)
		print_json(work, &processes, state->gpu_count, JSON_C_TO_STRING_PRETTY);
	else
		print_table(work, &processes, state->gpu_count);
	sim_work_unmap(work);
	sim_state_unmap(state);
	return 0;
}

int command_usage(int argc, char **argv)
{
	struct sim_options options = {};
	struct error err = {};
	int r = options_parse(&sim_usage_option_table, argc, argv, &options);

	if (r >= 0)
		return r;
	if (options.every_ms && !options.json)
		return options_refuse(&sim_usage_option_table, "--every needs --json");
	return show(options.dir, options.json, options.every_ms, &err) < 0 ? command_fail(&err) : 0;
}
