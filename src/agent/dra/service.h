/* service.h - the sockets on which the kubelet finds and calls the driver. They belong to the worker, not to
 * the supervisor: the kubelet repeats a call that failed, and connects again by itself. */
#pragma once

#include <stdbool.h>

struct dra_deps;
struct error;
struct health_stream;
struct preparer;
struct service;

/* service_new() - all must outlive it. deps->changed() is called when the kubelet has registered the driver,
 * or has refused to. */
int service_new(const struct dra_deps *deps, struct preparer *preparer, struct health_stream *health,
	struct service **ret_service);
void service_free(struct service *service); /* accepts NULL */

/* service_open() - listens. May be called again: a socket whose file is gone is created again. A negative
 * errno with a sentence; service_close() undoes it. */
int service_open(struct service *service, struct error *err);
void service_close(struct service *service);

/* service_is_registered() - the kubelet has said so. service_refusal() - why not, in the kubelet's words; ""
 * if it has not said anything. */
bool service_is_registered(const struct service *service);
const char *service_refusal(const struct service *service);
