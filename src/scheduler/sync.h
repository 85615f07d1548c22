/* sync.h - the API server's nodes and pods, by LIST + WATCH, into the ledger. */
#pragma once

struct scheduler;
struct sync;

int sync_start(struct scheduler *scheduler, struct sync **ret_sync);
void sync_stop(struct sync *sync); /* accepts NULL */
