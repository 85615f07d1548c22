/* replay.h - a recorded history (kube/history.h) fed into a ledger again, each decision computed anew and
 * compared with what was recorded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/replay-plan.h"
#include "model/facts.h"

#define REPLAY_BEST_MAX 16

struct error;

/* What filter should answer, computed when it is asked. */
struct replay_answer {
	char *uid;     /* of the pod; NULL: nothing is expected */
	bool computed; /* false: the history does not say which nodes were asked about */
	size_t n_fitting, n_best;
	char *best[REPLAY_BEST_MAX]; /* names: what comes next may take the node away */
	struct request request;
	uint32_t reject_reasons[REJECT_MAX];
};

struct replay {
	struct ledger ledger;
	size_t best_nodes; /* filter's K */
	bool begun;	   /* the first line was read */
	struct replay_answer answer;
	char *refused; /* uid: the last change could not reserve what this pod holds; GPUs are chosen anew */
	struct replay_plan plan; /* of a gang, while its pods are given what they hold */
	uint64_t lines, changes, answers, answers_not_computed, preemptions_not_computed, gpus;
	uint64_t plans, plans_not_computed;
};

void replay_init(struct replay *replay);
void replay_release(struct replay *replay); /* accepts NULL */
#define _cleanup_replay_ _cleanup_(replay_release)

/* replay_line() - the next line. Returns 0; 1 with a sentence for the first decision that comes out otherwise
 * than recorded; -EINVAL with a sentence for what is no history. */
int replay_line(struct replay *replay, const char *text, size_t len, struct error *err);
