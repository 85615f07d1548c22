/* checkpoint.h - the kubelet's own record of device assignments, from which the agent's record is rebuilt at
 * start.
 *
 * {"Data":{"PodDeviceEntries":[{"PodUID":"..","ContainerName":"..","ResourceName":"aliyun.com/gpu-mem",
 *  "DeviceIDs":{"-1":["0-3", ..]},"AllocResp":".."}],"RegisteredDevices":{..}},"Checksum":n}
 * (devicemanager/checkpoint, kubelet 1.36; unlike PodResources it has init containers and the pod's uid). */
#pragma once

#include <stddef.h>

struct error;
struct served;

/* Both resources that give GPUs: gpu-mem and whole GPUs. A container has at most one of them. */
#define CHECKPOINT_OF_GPUS NULL

/* checkpoint_parse() - adds the entries of this resource to `served`. Unknown fields are ignored, invalid
 * entries are skipped. -EINVAL with a sentence if the text is not a checkpoint; -ENOMEM. */
int checkpoint_parse(
	const char *text, size_t len, const char *resource, struct served *served, struct error *err);

/* checkpoint_load() - replaces *served by the file's content. A file that does not exist counts as empty. On
 * failure *served is untouched. */
int checkpoint_load(const char *path, const char *resource, struct served *served, struct error *err);
