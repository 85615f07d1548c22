#include "sim/state/trouble.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/state/file.h"
#include "sim/state/layout.h"

int sim_trouble_map(const char *root, struct sim_trouble **ret_trouble)
{
	const struct sim_file_head head = {
		SIM_TROUBLE_MAGIC, SIM_TROUBLE_VERSION, sizeof(struct sim_trouble)};
	struct sim_file file;
	int r = sim_file_map(root, "trouble", head, &file);

	if (r < 0)
		return r;
	close(file.fd);
	/* A writable mapping is required, because every hit is counted. */
	if (!file.writable) {
		sim_trouble_unmap(file.map);
		return -EACCES;
	}
	*ret_trouble = file.map;
	return 0;
}

void sim_trouble_unmap(struct sim_trouble *trouble)
{
	if (trouble)
		munmap(trouble, sizeof(*trouble));
}

void sim_trouble_prepare(struct sim_trouble *trouble)
{
	trouble->magic = SIM_TROUBLE_MAGIC;
	trouble->version = SIM_TROUBLE_VERSION;
	trouble->size = sizeof(*trouble);
}

int sim_trouble_add(struct sim_trouble *trouble, const struct sim_fault *fault)
{
	for (size_t i = 0; i < SIM_MAX_FAULTS; i++) {
		struct sim_fault *free_one = &trouble->faults[i];

		if (atomic_load(&free_one->kind) != SIM_FAULT_NONE && atomic_load(&free_one->left) > 0)
			continue;
		atomic_store(&free_one->kind, SIM_FAULT_NONE);
		atomic_store(&free_one->left, fault->left);
		atomic_store(&free_one->skip, fault->skip);
		free_one->argument = fault->argument;
		free_one->gpu = fault->gpu;
		memcpy(free_one->point, fault->point, sizeof(free_one->point));
		atomic_store(&free_one->kind, fault->kind);
		atomic_fetch_add(&trouble->fault_count, 1);
		return 0;
	}
	return -ENOSPC;
}

void sim_trouble_clear(struct sim_trouble *trouble)
{
	for (size_t i = 0; i < SIM_MAX_FAULTS; i++)
		atomic_store(&trouble->faults[i].kind, SIM_FAULT_NONE);
	atomic_store(&trouble->fault_count, 0);
}

/* Decrements the counter, but never below zero: several processes may do it at the same time. */
static bool count_down(_Atomic uint32_t *counter)
{
	uint32_t old = atomic_load(counter);

	while (old > 0)
		if (atomic_compare_exchange_weak(counter, &old, old - 1))
			return true;
	return false;
}

bool sim_trouble_hit(struct sim_trouble *trouble, enum sim_fault_kind kind, const char *point, unsigned gpu,
	uint32_t *ret_argument)
{
	if (atomic_load_explicit(&trouble->fault_count, memory_order_relaxed) == 0)
		return false;
	for (size_t i = 0; i < SIM_MAX_FAULTS; i++) {
		struct sim_fault *fault = &trouble->faults[i];

		if (atomic_load(&fault->kind) != kind || strncmp(fault->point, point, SIM_POINT_MAX) != 0 ||
			(fault->gpu < SIM_MAX_GPUS && gpu < SIM_MAX_GPUS && fault->gpu != gpu))
			continue;
		if (count_down(&fault->skip) || !count_down(&fault->left))
			continue;
		*ret_argument = fault->argument;
		return true;
	}
	return false;
}

const char *sim_misuse_name(enum sim_misuse kind)
{
	static const char *const names[] = {
		[SIM_DOUBLE_FREE] = "double free",
		[SIM_USE_AFTER_FREE] = "use after free",
		[SIM_WRONG_CONTEXT] = "wrong context",
		[SIM_FOREIGN_HANDLE] = "handle of another process",
		[SIM_NOT_A_HANDLE] = "not a handle",
		[SIM_BAD_POINTER] = "pointer to no memory",
	};

	return kind < SIM_MISUSE_MAX ? names[kind] : "?";
}
