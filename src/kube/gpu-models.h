/* gpu-models.h - what Node objects and the node selectors of pods call the models of GPUs. They use the label
 * that the agent sets and the one of NVIDIA's GPU feature discovery. */
#pragma once

struct json_object;

/* gpu_models_of_node() - the values of both labels, each once, sorted, with commas between them; NULL if the
 * node has neither.
 *
 * gpu_models_of_pod() - the values that the node selector, or the terms of the required node affinity, allow
 * for one of the labels, likewise. NULL if the pod names no model: if a term allows any, or if it says which
 * ones are not wanted.
 *
 * The result is malloc'ed. Returns 0 or -ENOMEM. */
int gpu_models_of_node(struct json_object *node, char **ret_names);
int gpu_models_of_pod(struct json_object *pod, char **ret_names);
