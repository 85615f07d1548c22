#include "agent/looks/overhead.h"

/* What one process has in its slot; if several could be its own, the largest of each. */
struct charge {
	uint64_t held, exported, imported;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void add_slots(
	struct charge *charge, const struct owner *process, const struct usage_peek_slot *slots, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!usage_slot_is_of(&slots[i], process))
			continue;
		charge->held = larger(charge->held, slots[i].held_bytes);
		charge->exported = larger(charge->exported, slots[i].exported_bytes);
		charge->imported = larger(charge->imported, slots[i].imported_bytes);
	}
	charge->exported = smaller(charge->exported, charge->held);
}

void overhead_compute(const struct overhead_process *processes, size_t n,
	const struct usage_peek_slot *before, size_t n_before, const struct usage_peek_slot *after,
	size_t n_after, struct overhead *ret_overhead)
{
	struct overhead sum = {0};
	uint64_t exported = 0;

	for (size_t i = 0; i < n; i++) {
		struct charge charge = {0};

		add_slots(&charge, &processes[i].owner, after, n_after);
		exported += charge.exported;
	}
	for (size_t i = 0; i < n; i++) {
		struct charge charge = {0}, was = {0}, now = {0};
		uint64_t bytes = processes[i].bytes, duplicate;

		add_slots(&was, &processes[i].owner, before, n_before);
		add_slots(&now, &processes[i].owner, after, n_after);
		add_slots(&charge, &processes[i].owner, before, n_before);
		add_slots(&charge, &processes[i].owner, after, n_after);
		/* What it has of others of the container is counted there. */
		duplicate = smaller(charge.imported, exported - smaller(exported, now.exported));
		bytes -= smaller(bytes, duplicate);
		sum.used_bytes += bytes;
		sum.overhead_bytes += bytes - smaller(bytes, charge.held);
		sum.most_bytes += bytes - smaller(bytes, smaller(was.held, now.held));
	}
	*ret_overhead = sum;
}

bool overhead_is_ambiguous(const struct owner *process, const struct usage_peek_slot *slots, size_t n_slots)
{
	size_t count = 0;

	for (size_t i = 0; i < n_slots; i++)
		count += usage_slot_is_of(&slots[i], process);
	return count > 1;
}
