/* condition.h - the node condition GPUSharingProblem, for users and for tools that read conditions. It is
 * "True", with the sentence of ration.dev/problem, while the node offers nothing, or nothing new. It is also
 * "True", with the reason GPUAdvertisedTwice, while another device plugin offers the same GPUs. With the
 * reason GPUDriverUnknownFunctions it is "False", and names functions of the driver that are not limited.
 * With the reason GPULostAtReload it is "False", too. */
#pragma once

struct json_object;
struct node_registry;

struct node_problem {
	const char *reason; /* the condition's reason, one word */
	char text[512];	    /* "": no problem */
};

/* condition_problem() - why the node offers nothing, or nothing new. */
void condition_problem(const struct node_registry *node, struct node_problem *ret_problem);

/* condition_build() - the condition for the node's status. NULL if the status has it already (status: as the
 * API server shows it; a node that never had a problem has no condition), or when out of memory. The caller
 * puts it. */
struct json_object *condition_build(const struct node_registry *node, struct json_object *status);
