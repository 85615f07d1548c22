/* runc.h - which runc starts containers, where it does so with the systemd cgroup driver. containerd is
 * asked, which runs `runc features` itself; containerd before 2.0 and CRI-O cannot be asked, and then the
 * version is not known. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct grpc_client;
struct runc;

#define RUNC_VERSION_SIZE 40

/* What the container runtime's configuration says of the runtime that pods get by default. */
struct runc_config {
	bool systemd;	  /* runc, with the systemd cgroup driver */
	char binary[256]; /* "": containerd finds it on its PATH */
};

/* runc_new() - asks nothing yet; changed() is called when runc_version() changes. cri must outlive it. */
int runc_new(
	struct grpc_client *cri, void (*changed)(void *userdata), void *userdata, struct runc **ret_runc);
void runc_free(struct runc *runc); /* accepts NULL */

/* runc_configured() - the runtime has told its configuration, perhaps another one: asks for the version where
 * that matters. */
void runc_configured(struct runc *runc, const char *config, size_t len);

/* runc_version() - of the runc with the systemd cgroup driver; "": another driver, or not known. */
const char *runc_version(const struct runc *runc);
