/* room.h - which free memory of a cluster is stranded (stranded.h). Pure. */
#pragma once

struct inspect;
struct strbuf;

/* ui_room_json() - [[units of a GPU, ...] of a node, ...] in the order of `inspect`. The kinds are those of
 * the pods that run or wait. A kind counts on nodes that give memory in the same way: for a pod without a
 * claim with the same unit, with a percentage of the computing power only in mode core_mem. -ENOMEM. */
int ui_room_json(const struct inspect *inspect, struct strbuf *out);
