/* faults.h - the ConfigMaps that declare GPUs of this node faulty (fault-list.h), and what is told of sick
 * GPUs: no new pods on them, while what runs there goes on. Why the agent reads them and not the scheduler:
 * whose word on a GPU counts, is then one place, and everybody sees it, the kubelet too. */
#pragma once

#include <stdbool.h>

struct agent;
struct faults;

int faults_new(struct agent *agent, struct faults **ret_faults);
void faults_free(struct faults *faults); /* accepts NULL */

/* faults_watch() - once the agent has its client. */
int faults_watch(struct faults *faults);

/* faults_settled() - both ConfigMaps were read, or could not be for so long that the node must go on without
 * them. Before, nothing may be said of the GPUs to others: it could be that they are well. */
bool faults_settled(struct faults *faults);

/* faults_follow() - the lists' word on the GPUs that there are now, and an Event for each GPU that is sick
 * since. Cheap; call it whenever something may have changed. */
void faults_follow(struct faults *faults);
