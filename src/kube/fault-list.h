/* fault-list.h - GPUs that a user or program has declared faulty, in the two documented ConfigMaps of
 * kube-system (names.h; docs/internals/contract.md, section 5). A text is accepted as a whole or not at all:
 * an unclear text must neither take a GPU out of service nor give one back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/facts.h"

struct error;

#define FAULT_LIST_MAX 128		/* entries; a node has at most NODE_GPUS_MAX GPUs */
#define FAULT_LIST_TEXT_MAX (64 * 1024) /* bytes, of a ConfigMap's 1 MiB */
#define FAULT_INDEX_MAX 4095

struct fault {
	int index;		      /* nvidia-smi's; -1 if only the UUID identifies the GPU */
	char uuid[GPU_UUID_SIZE];     /* "" if only the index identifies it; else the UUID counts, because the
					 index may have changed */
	char reason[GPU_REASON_SIZE]; /* as the user or program wrote it; "" if it did not */
};

struct fault_list {
	struct fault faults[FAULT_LIST_MAX];
	size_t n;
};

/* fault_list_from_device_status() - data.devices of <node>-device-status: a YAML (or JSON) list of {deviceId:
 * index or UUID, deviceType: gpu, healthy: false}. Other types of device and healthy ones are left out. Of
 * the other keys, only `reason` is kept. "" is an empty list. -EINVAL with a sentence. */
int fault_list_from_device_status(const char *text, struct fault_list *ret_list, struct error *err);

/* fault_list_from_gpus() - data.gpus of unhealthy-gpu-<node>: "0,2"; indices, and UUIDs too. notes: the
 * annotation ration.dev/cordoned of the same object, NULL if the object does not have it. It has UUID and
 * reason of the GPUs, and is valid as long as the list was not changed in another way. */
int fault_list_from_gpus(const char *text, const char *notes, struct fault_list *ret_list, struct error *err);

/* fault_list_gpus() - the list as data.gpus: indices if they are known, no blanks (the open extender reads
 * invalid text as GPU 0). fault_list_notes() - the annotation for it. The caller frees; NULL when out of
 * memory. */
char *fault_list_gpus(const struct fault_list *list);
char *fault_list_notes(const struct fault_list *list);

/* fault_is_about() - the entry is about this GPU. */
bool fault_is_about(const struct fault *fault, int index, const char *uuid);

/* fault_parse_gpu() - reads an index or a UUID; does not change the reason. */
int fault_parse_gpu(const char *text, struct fault *fault);

/* fault_reason_copy() - copies the text as one line, cut between characters. */
void fault_reason_copy(char ret_reason[GPU_REASON_SIZE], const char *text);
