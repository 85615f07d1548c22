/* policies-internal.h - functions that policies.c (calls of kube-scheduler), policies-gang.c and
 * events-cluster.c share. */
#pragma once

#include "core/policies.h"

/* policies_select() - the pod as the call shows it, if a policy applies to it; else NULL. decision: as far as
 * it is known. */
struct policy_pod *policies_select(struct core *core, const struct policy_asked *asked, int64_t now_ns,
	struct policy_decision *ret_decision);

/* policies_narrow() - core_policy_narrow() after policies_select(). policies_narrow_gang() - the same for a
 * pod of a gang that has not started. The whole gang goes into the first unit with room for as many members
 * as must be placed together. *ret_names: the names that are left, malloc'ed; NULL: all, no policy applies
 * (yet). -ENOMEM. */
void policies_narrow(struct core *core, const char *const *names, size_t n, bool *usable, int64_t now_ns,
	struct policy_decision *decision);
int policies_narrow_gang(struct core *core, const struct pod_facts *facts, const char *const *names, size_t n,
	int64_t now_ns, const char ***ret_names, size_t *ret_n, struct policy_decision *decision);

/* policies_cannot_say() - true if the policy cannot decide yet; the pod is requeued when it can. */
bool policies_cannot_say(struct core *core, int64_t now_ns, struct policy_decision *decision);

/* policies_ask() - writes the answer of policy_book_ask() into the decision. policies_use(), policies_wait()
 * - carry out what it says. */
void policies_ask(uint32_t together, uint64_t room, int64_t now_ns, struct policy_decision *decision);
void policies_use(struct core *core, size_t unit, int64_t now_ns, struct policy_decision *decision);
void policies_wait(struct core *core, int64_t now_ns, struct policy_decision *decision);

/* core_policy_take_gang() - the pod gets its node in the unit that policies_narrow_gang() has chosen for its
 * gang. Its place there and the places of the other members are kept. */
void core_policy_take_gang(struct core *core, int64_t now_ns, struct policy_decision *decision);

/* core_policy_wait_until() - the pod waits for a unit. At until_ns at the latest, another attempt is worth
 * it; 0: there is no such time. core_policy_found_waiting() - the pod may have waited for a unit since before
 * this process began. */
int core_policy_wait_until(struct core *core, struct policy_space *space, const struct policy_pod *pod,
	int64_t until_ns, int64_t now_ns);
int core_policy_found_waiting(
	struct core *core, struct policy_space *space, const struct policy_pod *pod, int64_t now_ns);

/* policies_drop_given_up() - drops the claims for pods that kube-scheduler did not ask for, if their gang has
 * no plan any more. */
void policies_drop_given_up(struct core *core, struct policy_space *space);
