/* own.h - the shim is made for one process: what is its own is exchanged when another one goes on. */
#pragma once

struct own {
	void *cost, *sample, *drawn;
};

void own_swap_cost(void **state);
void own_swap_sample(void **state);
void own_swap_drawn(void **state);
