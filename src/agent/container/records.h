/* records.h - what each pod holds, one file per pod in DIR/pods. The next agent on this node reads them, even
 * about pods that the API server does not have any more. */
#pragma once

#include <stddef.h>

struct held;
struct held_pod;
struct pod_facts;

/* records_gpus() - the GPUs of a pod that has a placement, each with what the pod occupies of it. */
int records_gpus(const struct pod_facts *facts, struct held_pod *pod);

/* records_write() - unless it is there already. records_replace() - what the pod holds has changed. A failure
 * is logged: it costs the knowledge, not the pod. */
void records_write(const char *dir, const struct pod_facts *facts);
void records_replace(const char *dir, const struct pod_facts *facts);
void records_remove(const char *dir, const char *uid);

/* records_read() - all of them into *ret_held, which the caller initialises. Files that make no sense are
 * removed. */
void records_read(const char *dir, struct held *ret_held);
