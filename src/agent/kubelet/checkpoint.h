/* checkpoint.h - the kubelet's own record of device assignments, from which the agent's record is rebuilt at
 * start, and which says at PreStartContainer for which container an answer of Allocate was (node/answered.h).
 *
 * {"Data":{"PodDeviceEntries":[{"PodUID":"..","ContainerName":"..","ResourceName":"aliyun.com/gpu-mem",
 *  "DeviceIDs":{"-1":["0-3", ..]},"AllocResp":".."}],"RegisteredDevices":{..}},"Checksum":n}
 * (devicemanager/checkpoint, kubelet 1.36; unlike PodResources it has init containers and the pod's uid). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "node/served.h"

struct error;

/* Both resources that give GPUs: gpu-mem and whole GPUs. A container has at most one of them. */
#define CHECKPOINT_OF_GPUS NULL

/* checkpoint_parse() - adds the entries of this resource to `served`. Unknown fields are ignored, invalid
 * entries are skipped. -EINVAL with a sentence if the text is not a checkpoint; -ENOMEM. */
int checkpoint_parse(
	const char *text, size_t len, const char *resource, struct served *served, struct error *err);

/* checkpoint_load() - replaces *served by the file's content. A file that does not exist counts as empty. On
 * failure *served is untouched. */
int checkpoint_load(const char *path, const char *resource, struct served *served, struct error *err);

/* The file as it was read last. A kubelet renames a new file to this path whenever it writes. */
struct checkpoint_cache {
	struct served served;
	bool known;
	ino_t ino;
	off_t size;
	struct timespec written;
};

/* checkpoint_look() - reads the file if it has changed. A file that does not exist is an error. */
int checkpoint_look(struct checkpoint_cache *cache, const char *path, struct error *err);
