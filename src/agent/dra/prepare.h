/* prepare.h - NodePrepareResources and NodeUnprepareResources. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/dra/deps.h"

struct error;
struct grpc_call;
struct node_claim;
struct preparer;

/* preparer_new() - deps must outlive it. Loads the records of earlier agents. */
int preparer_new(const struct dra_deps *deps, struct preparer **ret_preparer);
void preparer_free(struct preparer *preparer); /* accepts NULL; call it after the calls have ended */

/* The calls of the kubelet. Claims of one call are prepared one after the other. */
void preparer_prepare(struct preparer *preparer, struct grpc_call *call, const uint8_t *message, size_t len);
void preparer_unprepare(
	struct preparer *preparer, struct grpc_call *call, const uint8_t *message, size_t len);
void preparer_closed(struct preparer *preparer, struct grpc_call *call);

const struct dra_counts *preparer_counts(const struct preparer *preparer);

/* preparer_remove() - removes all that lies on the node for this claim, and lets others have its room;
 * nothing is success. */
void preparer_remove(struct preparer *preparer, const char *uid);
