#include "sim/state/processes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/state/claim.h"
#include "sim/state/file.h"
#include "sim/state/process-locks.h"

struct identity {
	uint32_t pid;
	uint64_t pid_namespace;
	uint64_t start_ticks;
};

/* Field 22 counts from the last ')', because the command name in field 2 may contain anything. */
static uint64_t start_ticks_of_self(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/stat", "re");
	char line[1024];
	char *p;

	if (!f || !fgets(line, sizeof(line), f))
		return 0;
	p = strrchr(line, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

static struct identity identity_of_self(void)
{
	struct identity self = {.pid = (uint32_t)getpid(), .start_ticks = start_ticks_of_self()};
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) == 0)
		self.pid_namespace = st.st_ino;
	return self;
}

void sim_processes_prepare(struct sim_process_table *table)
{
	table->magic = SIM_PROCESSES_MAGIC;
	table->version = SIM_PROCESSES_VERSION;
	table->size = sizeof(*table);
	for (size_t i = 0; i < SIM_MAX_GPUS; i++)
		sim_lock_prepare(&table->locks[i]);
}

int sim_processes_open(const char *root, struct sim_processes *ret_processes)
{
	const struct sim_file_head head = {
		SIM_PROCESSES_MAGIC, SIM_PROCESSES_VERSION, sizeof(struct sim_process_table)};
	struct process_locks *locks;
	struct sim_file file;
	int r = sim_file_map(root, "processes", head, &file);

	if (r < 0)
		return r;
	r = process_locks_open(root, &locks);
	if (r < 0)
		return r; /* the file stays open: closing it would drop the process's other locks */
	*ret_processes = (struct sim_processes){.table = file.map, .locks = locks, .writable = file.writable};
	return 0;
}

static off_t offset_of(const struct sim_processes *processes, const struct sim_process *slot)
{
	return (const char *)slot - (const char *)processes->table;
}

/* Returns the owner's pid as this process sees it; -ESRCH: the owner has ended. */
static int slot_owner(const struct sim_processes *processes, const struct sim_process *slot, pid_t *ret_pid)
{
	pid_t pid;
	struct stat st;
	int r = process_locks_owner(processes->locks, offset_of(processes, slot), &pid);

	if (r < 0)
		return r;
	if (pid == 0 && stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == slot->pid_namespace)
		pid = (pid_t)atomic_load(&slot->pid);
	*ret_pid = pid;
	return 0;
}

uint64_t sim_process_bytes(const struct sim_process *slot, unsigned gpu)
{
	return atomic_load(&slot->bytes[gpu]) & ((UINT64_C(1) << SIM_BYTES_BITS) - 1);
}

uint64_t sim_bytes_word(uint64_t before, uint64_t bytes)
{
	return ((before >> SIM_BYTES_BITS) + 1) << SIM_BYTES_BITS | bytes;
}

/* Each word gets a new value, so that no process finishes a change that the dead one had begun. */
static void clear_slot(struct sim_process *slot)
{
	atomic_store(&slot->pid, 0);
	for (size_t i = 0; i < SIM_MAX_GPUS; i++) {
		uint64_t old = atomic_load(&slot->bytes[i]);

		while (!atomic_compare_exchange_weak(&slot->bytes[i], &old, sim_bytes_word(old, 0)))
			;
	}
}

/* A previous owner that was killed may have left its bits and a claim. */
static void forget_predecessor(struct sim_process_table *table, const struct sim_process *slot)
{
	size_t index = (size_t)(slot - table->slots);

	for (unsigned gpu = 0; gpu < SIM_MAX_GPUS; gpu++)
		sim_claim_drop(table, gpu, slot);
	for (size_t i = 0; i < sim_shared_slots(table); i++)
		if (atomic_load(&table->shared[i].id) != 0)
			atomic_fetch_and(&table->shared[i].holders[index / 64], ~(UINT64_C(1) << index % 64));
}

int sim_processes_claim(const struct sim_processes *processes, struct sim_process **ret_slot)
{
	struct identity self = identity_of_self();
	pid_t owner;

	if (!processes->writable)
		return -EACCES;
	for (size_t i = 0; i < SIM_MAX_PROCESSES; i++) {
		struct sim_process *slot = &processes->table->slots[i];

		/* Our own locks never conflict with us, but the probe sees the locks of another copy of this
		 * code in this process. */
		if (sim_process_alive(processes, slot, &owner) ||
			process_locks_claim(processes->locks, offset_of(processes, slot)) < 0)
			continue;
		forget_predecessor(processes->table, slot);
		clear_slot(slot);
		slot->pid_namespace = self.pid_namespace;
		slot->start_ticks = self.start_ticks;
		atomic_store(&slot->pid, self.pid);
		sim_raise(&processes->table->slot_count, i + 1);
		*ret_slot = slot;
		return 0;
	}
	return -EBUSY;
}

void sim_processes_release(const struct sim_processes *processes, struct sim_process *slot)
{
	if (!slot)
		return;
	clear_slot(slot);
	process_locks_drop(processes->locks, offset_of(processes, slot));
}

bool sim_process_alive(const struct sim_processes *processes, struct sim_process *slot, pid_t *ret_pid)
{
	if (slot_owner(processes, slot, ret_pid) == 0)
		return true;
	/* Only under the lock, and only if the slot still belongs to the dead process: a new owner may have
	 * come in between. */
	if (processes->writable && atomic_load(&slot->pid) != 0 &&
		process_locks_hold(processes->locks, offset_of(processes, slot)) == 0) {
		clear_slot(slot);
		process_locks_release(processes->locks, offset_of(processes, slot));
	}
	return false;
}

static size_t bounded(uint32_t count, size_t max)
{
	return count < max ? count : max;
}

size_t sim_process_slots(const struct sim_process_table *table)
{
	return bounded(atomic_load(&table->slot_count), SIM_MAX_PROCESSES);
}

size_t sim_shared_slots(const struct sim_process_table *table)
{
	return bounded(atomic_load(&table->shared_count), SIM_MAX_SHARED);
}

void sim_raise(_Atomic uint32_t *count, size_t least)
{
	uint32_t old = atomic_load(count);

	while (old < least && !atomic_compare_exchange_weak(count, &old, (uint32_t)least))
		;
}

bool sim_shared_held(
	const struct sim_processes *processes, const struct sim_shared_memory *shared, size_t except)
{
	pid_t pid;

	for (size_t i = 0; i < sim_process_slots(processes->table); i++)
		if (i != except && (atomic_load(&shared->holders[i / 64]) >> i % 64 & 1) &&
			sim_process_alive(processes, &processes->table->slots[i], &pid))
			return true;
	return false;
}

static const struct sim_shared_memory *shared_on(
	const struct sim_process_table *table, size_t index, unsigned gpu)
{
	const struct sim_shared_memory *shared = &table->shared[index];

	return atomic_load(&shared->id) != 0 && atomic_load(&shared->gpu) == gpu ? shared : NULL;
}

/* Adds up how much of the GPU's shared memory each slot holds. */
static void add_shared(const struct sim_process_table *table, unsigned gpu, uint64_t *sums)
{
	for (size_t i = 0; i < sim_shared_slots(table); i++) {
		const struct sim_shared_memory *shared = shared_on(table, i, gpu);

		for (size_t k = 0; shared && k < SIM_MAX_PROCESSES; k++)
			if (atomic_load(&shared->holders[k / 64]) >> k % 64 & 1)
				sums[k] += atomic_load(&shared->bytes);
	}
}

size_t sim_processes_list(
	const struct sim_processes *processes, unsigned gpu, struct sim_process_view *ret_views, size_t max)
{
	uint64_t sums[SIM_MAX_PROCESSES] = {0};
	size_t count = 0;

	add_shared(processes->table, gpu, sums);
	for (size_t i = 0; i < sim_process_slots(processes->table); i++) {
		struct sim_process *slot = &processes->table->slots[i];
		uint64_t bytes = sim_process_bytes(slot, gpu) + sums[i];
		pid_t pid = 0;

		if (bytes == 0 || !sim_process_alive(processes, slot, &pid))
			continue;
		if (count < max)
			ret_views[count] = (struct sim_process_view){.pid = pid, .bytes = bytes, .slot = i};
		count++;
	}
	return count;
}

uint64_t sim_processes_used(const struct sim_processes *processes, unsigned gpu)
{
	struct sim_process_table *table = processes->table;
	uint64_t sum = 0;
	pid_t pid;

	for (size_t i = 0; i < sim_process_slots(table); i++) {
		uint64_t bytes = sim_process_bytes(&table->slots[i], gpu);

		if (bytes > 0 && sim_process_alive(processes, &table->slots[i], &pid))
			sum += bytes;
	}
	for (size_t i = 0; i < sim_shared_slots(table); i++) {
		const struct sim_shared_memory *shared = shared_on(table, i, gpu);

		if (shared && sim_shared_held(processes, shared, SIM_MAX_PROCESSES))
			sum += atomic_load(&shared->bytes);
	}
	return sum;
}
