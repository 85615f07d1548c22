#include "node/turn.h"

#include <string.h>

void turn_init(struct turn *turn)
{
	table_init(&turn->listed);
	table_init(&turn->past);
}

void turn_release(struct turn *turn)
{
	table_release(&turn->listed);
	table_release(&turn->past);
}

void turn_begin(struct turn *turn)
{
	turn_release(turn);
	turn_init(turn);
}

static bool is_new(const struct turn *turn, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!table_get(&turn->listed, names[i]))
			return true;
	return false;
}

/* Names that the kubelet no longer lists are left out, because a later pod may get one of them. */
static bool copy_known(const struct table *known, const char *const *names, size_t n, struct table *ret_copy)
{
	for (size_t i = 0; i < n; i++)
		if ((!known || table_get(known, names[i])) && table_set(ret_copy, names[i], ret_copy) < 0)
			return false;
	return true;
}

void turn_follow(struct turn *turn, const char *const *names, size_t n)
{
	struct turn next;

	turn_init(&next);
	if (copy_known(is_new(turn, names, n) ? &turn->listed : &turn->past, names, n, &next.past) &&
		copy_known(NULL, names, n, &next.listed)) {
		turn_release(turn);
		*turn = next;
		return;
	}
	turn_release(&next);
	turn_begin(turn);
}

void turn_took(struct turn *turn, const char *name)
{
	const char *listed;

	for (size_t cursor = 0; table_next(&turn->listed, &cursor, &listed, NULL);) {
		if (strcmp(listed, name) == 0 || table_set(&turn->past, listed, turn) == 0)
			continue;
		turn_begin(turn);
		return;
	}
}

bool turn_is_past(const struct turn *turn, const char *name)
{
	return table_get(&turn->past, name) != NULL;
}
