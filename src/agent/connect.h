/* connect.h - the agent's client of the API server. */
#pragma once

struct error;
struct kube_client;
struct loop;

/* connect_new() - kubeconfig: see kube_config_load(). A negative errno with a sentence on failure. It makes
 * no request. */
int connect_new(
	struct loop *loop, const char *kubeconfig, struct kube_client **ret_client, struct error *err);
