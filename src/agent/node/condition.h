/* condition.h - the node condition GPUSharingProblem, for people and for tools that know conditions: "True"
 * with the sentence of ration.dev/problem while the node offers nothing, or nothing new; and with the reason
 * GPUAdvertisedTwice while another device plugin offers the same GPUs. With the
 * reason GPUDriverUnknownFunctions it is "False", and names functions of the driver that are not limited; so
 * it is with the reason GPULostAtReload. */
#pragma once

struct json_object;
struct node_registry;

struct node_problem {
	const char *reason; /* one word, of the condition */
	char text[512];	    /* "": none */
};

/* condition_problem() - why the node offers nothing, or nothing new. */
void condition_problem(const struct node_registry *node, struct node_problem *ret_problem);

/* condition_build() - what the node's status is to say; NULL if it does (status: as the API server shows it;
 * a node that never had a problem has no condition), or when out of memory. The caller puts it. */
struct json_object *condition_build(const struct node_registry *node, struct json_object *status);
