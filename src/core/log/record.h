/* record.h - events and outputs of a core as lines of text.
 *
 *   {"event":"pod-seen","at":17,..}     an event; then what belongs to it:
 *   {"told":"caller-gone",..}           the caller's answer to a query of the core
 *   {"gave":"filter",..}                what the core has decided */
#pragma once

#include "base/archive.h"
#include "core/leadership.h"
#include "core/gang/gang.h"
#include "core/log/event.h"
#include "core/policy/policy-book.h"
#include "core/preempt.h"
#include "model/facts.h"

/* record_event(), record_output() - add the members of the line to an archive that writes and is in the
 * object of the line. */
void record_event(struct archive *archive, const struct core_event *event);
void record_output(struct archive *archive, const struct core_output *output);

/* An event that was read, with what it points to. */
struct read_event {
	struct core_event event;
	char *name, *uid, *namespace_, *text;
	struct node_facts node;
	struct pod_facts pod;
	struct ownership ownership;
	struct gang_group group;
	struct resource_policy *policy;
	struct policy_pod_facts policy_pod;
	struct budget *budget;
	struct preempt_node *candidates;
	size_t n_candidates;
};

/* An answer of the caller that was read. */
struct read_answer {
	struct core_output answer;
	char *uid, *text;
	struct placement placement;
	char **names;
	size_t n_names;
};

/* read_event(), read_answer() - read from the object of a line. False: the line is not an event, or not an
 * answer ("told"). A failure is in the archive. In either case, the caller releases what was read. */
bool read_event(struct archive *archive, struct read_event *ret_event);
bool read_answer(struct archive *archive, struct read_answer *ret_answer);
void read_event_release(struct read_event *event);
void read_answer_release(struct read_answer *answer);
