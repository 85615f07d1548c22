/* policies-internal.h - what policies.c (questions) and policies-gang.c share. */
#pragma once

#include "core/policies.h"

/* policies_select() - the pod as the question shows it, if a policy has a say; else NULL. decision: as far as
 * known. */
struct policy_pod *policies_select(struct core *core, const struct policy_asked *asked, int64_t now_ns,
	struct policy_decision *ret_decision);

/* policies_cannot_say() - the policy cannot decide yet; the pod is requeued when it can. */
bool policies_cannot_say(struct core *core, int64_t now_ns, struct policy_decision *decision);

/* policies_ask() - policy_book_ask(), into the decision. policies_use(), policies_wait() - what was answered.
 */
void policies_ask(struct core *core, uint32_t together, uint64_t room, int64_t now_ns,
	struct policy_decision *decision);
void policies_use(struct core *core, size_t unit, int64_t now_ns, struct policy_decision *decision);
void policies_wait(struct core *core, int64_t now_ns, const struct policy_decision *decision);

/* policies_drop_given_up() - what was taken for pods that did not ask, whose gang has no plan any more. */
void policies_drop_given_up(struct core *core, struct policy_space *space);
