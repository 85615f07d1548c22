#include "core/registry/host-pods.h"

#include <errno.h>
#include <stdlib.h>

#include "core/registry/ledger-internal.h"

void host_sum_add(struct host_sum *sum, struct host_amount host)
{
	sum->cpu_milli += host.cpu_milli;
	sum->memory_mib += host.memory_mib;
}

bool host_sum_remove(struct host_sum *sum, struct host_amount host)
{
	bool right = sum->cpu_milli >= host.cpu_milli && sum->memory_mib >= host.memory_mib;

	sum->cpu_milli -= sum->cpu_milli < host.cpu_milli ? sum->cpu_milli : host.cpu_milli;
	sum->memory_mib -= sum->memory_mib < host.memory_mib ? sum->memory_mib : host.memory_mib;
	return right;
}

static void host_pod_leave(struct ledger *ledger, struct host_pod *pod)
{
	list_remove(&pod->item);
	gpu_hosts_remove(&ledger->hosts, pod->node);
	host_sum_remove(&pod->node->taken, pod->host);
	gpu_hosts_add(&ledger->hosts, pod->node);
}

int host_pods_set(struct ledger *ledger, const char *uid, struct node_ledger *node, struct host_amount host)
{
	struct host_pod *pod = table_get(&ledger->host_pods, uid);

	if (pod) {
		host_pod_leave(ledger, pod);
	} else {
		pod = calloc(1, sizeof(*pod));
		if (!pod || table_set(&ledger->host_pods, uid, pod) < 0) {
			free(pod);
			return -ENOMEM;
		}
	}
	pod->node = node;
	pod->host = host;
	list_append(&node->host_pods, &pod->item);
	gpu_hosts_remove(&ledger->hosts, node);
	host_sum_add(&node->taken, host);
	gpu_hosts_add(&ledger->hosts, node);
	return 0;
}

struct node_ledger *host_pods_remove(struct ledger *ledger, const char *uid)
{
	struct host_pod *pod = table_remove(&ledger->host_pods, uid);
	struct node_ledger *node;

	if (!pod)
		return NULL;
	node = pod->node;
	host_pod_leave(ledger, pod);
	free(pod);
	return node;
}

void host_pods_release(struct ledger *ledger)
{
	void *pod;

	table_for_each (&ledger->host_pods, cursor, pod)
		free(pod);
	table_release(&ledger->host_pods);
}
