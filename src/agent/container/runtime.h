/* runtime.h - does the container runtime apply CDI? Measured, not inferred: containerd 1.7 has the field in
 * the CRI and ignores it silently unless its configuration says enableCDI. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;
struct grpc_client;
struct loop;
struct runtime;

/* runtime_config_does_cdi() - by the "config" of a verbose CRI Status: cdiSpecDirs (of CRI-O:
 * crio.CDISpecDirs) has our directory, and enableCDI is absent (containerd 2.x and CRI-O: always on) or true.
 * Pure. */
bool runtime_config_does_cdi(const char *config, size_t len, const char *cdi_dir);

/* runtime_new() - asks at once, and every 2 s until there is an answer; changed() is called whenever the
 * answer changes. socket is the one that cri calls, for messages. All of it must outlive the runtime. */
int runtime_new(struct loop *loop, struct grpc_client *cri, const char *socket, const char *cdi_dir,
	void (*changed)(void *userdata), void *userdata, struct runtime **ret_runtime);
void runtime_free(struct runtime *runtime); /* accepts NULL */

/* runtime_ask() - again, because the runtime may have been reconfigured. */
void runtime_ask(struct runtime *runtime);

/* runtime_remember() - its last answer to an agent before this one; it counts until there is a new one. */
void runtime_remember(struct runtime *runtime, bool does_cdi);

/* runtime_runc_version() - the version of the runc that it starts. */
const char *runtime_runc_version(const struct runtime *runtime);

bool runtime_answered(const struct runtime *runtime);
bool runtime_does_cdi(const struct runtime *runtime);
