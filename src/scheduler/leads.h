/* leads.h - whether the kube-scheduler beside us is the one that leads. */
#pragma once

#include <stdbool.h>

struct kube_response;

/* kube_scheduler_leads_here() - by the answer to a GET of its Lease (ledger_lease_path()): its holder's name
 * begins with our host's. No Lease: a kube-scheduler that is alone. */
bool kube_scheduler_leads_here(const struct kube_response *response);
