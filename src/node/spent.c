#include "node/spent.h"

#include <errno.h>

#include "node/pods.h"
#include "node/served.h"

static bool is_over(const struct served_entry *entry, const struct node_pods *pods,
	spent_may_live_fn may_live, const void *userdata)
{
	const struct node_pod *pod = node_pods_by_uid(pods, entry->uid);

	return pod ? pod->facts.finished : !(may_live && may_live(userdata, entry->uid));
}

int spent_find(const struct served *served, const struct node_pods *pods, spent_may_live_fn may_live,
	const void *userdata, struct table *ret_spent)
{
	for (int over = 1; over >= 0; over--) {
		list_for_each (item, &served->entries) {
			const struct served_entry *entry = list_entry(item, struct served_entry, item);

			if (is_over(entry, pods, may_live, userdata) != over)
				continue;
			for (size_t i = 0; i < entry->n_ids; i++) {
				if (!over)
					table_remove(ret_spent, entry->ids[i]);
				else if (table_set(ret_spent, entry->ids[i], ret_spent) < 0)
					return -ENOMEM;
			}
		}
	}
	return 0;
}
