#include "node/answered.h"

#include <stdio.h>
#include <string.h>

#include "node/pods.h"
#include "node/served.h"

#define NAMES_MAX 9 /* of one container */

const char *answered_own_name(const char *uid, const char *container, char buf[ANSWERED_NAME_SIZE])
{
	snprintf(buf, ANSWERED_NAME_SIZE, "%s.%s", uid, container);
	return buf;
}

bool answered_uid(const char *name, char *ret_uid, size_t size)
{
	const char *dot = strchr(name, '.');
	size_t len = dot ? (size_t)(dot - name) : 0;

	if (!len || len >= size)
		return false;
	memcpy(ret_uid, name, len);
	ret_uid[len] = '\0';
	return true;
}

static const char *entry_name(const struct served_entry *entry, char buf[ANSWERED_NAME_SIZE])
{
	return entry->device ? entry->device : answered_own_name(entry->uid, entry->container, buf);
}

/* The container that was answered this device, but not `besides`. */
static const struct served_entry *find_name(
	const struct served *served, const char *name, const struct served_entry *besides)
{
	char buf[ANSWERED_NAME_SIZE];

	list_for_each (item, &served->entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (entry != besides && strcmp(entry_name(entry, buf), name) == 0)
			return entry;
	}
	return NULL;
}

const char *answered_new_name(
	const struct served *served, const char *uid, const char *container, char buf[ANSWERED_NAME_SIZE])
{
	const struct served_entry *besides = served_find(served, uid, container);

	answered_own_name(uid, container, buf);
	for (int i = 2; find_name(served, buf, besides) && i <= NAMES_MAX; i++)
		snprintf(buf, ANSWERED_NAME_SIZE, "%s.%s.%d", uid, container, i);
	return buf;
}

const char *answered_name(
	const struct served *served, const char *uid, const char *container, char buf[ANSWERED_NAME_SIZE])
{
	const struct served_entry *entry = served_find(served, uid, container);

	if (!entry || !entry->device) {
		answered_own_name(uid, container, buf);
		return entry || !find_name(served, buf, NULL) ? buf : NULL;
	}
	if (answered_check(served, entry) == ANSWERED_TWICE)
		return NULL;
	snprintf(buf, ANSWERED_NAME_SIZE, "%s", entry->device);
	return buf;
}

enum answered answered_check(const struct served *served, const struct served_entry *entry)
{
	char uid[ANSWERED_NAME_SIZE], buf[ANSWERED_NAME_SIZE];

	if (!entry->device)
		return ANSWERED_ITS_OWN;
	if (find_name(served, entry->device, entry))
		return ANSWERED_TWICE;
	answered_own_name(entry->uid, entry->container, buf);
	/* A later name of its own (answered_new_name()). */
	if (answered_uid(entry->device, uid, sizeof(uid)) && strcmp(uid, entry->uid) == 0 &&
		strncmp(entry->device, buf, strlen(buf)) == 0 && entry->device[strlen(buf)] == '.')
		return ANSWERED_ITS_OWN;
	return ANSWERED_ANOTHERS;
}

static bool is_named(const struct served *checkpoint, const struct served_entry *entry)
{
	char buf[ANSWERED_NAME_SIZE];

	answered_own_name(entry->uid, entry->container, buf);
	list_for_each (item, &checkpoint->entries) {
		const struct served_entry *other = list_entry(item, struct served_entry, item);

		if (other->device && strcmp(other->device, buf) == 0)
			return true;
	}
	return false;
}

static bool is_known(const struct served *served, const struct served_entry *entry)
{
	return served_find(served, entry->uid, entry->container) ||
	       served_find_ids(served, NULL, entry->ids, entry->n_ids);
}

/* The agent knows whether a container with these ids may start, even if it took the wrong one for it. */
static bool ids_wait(const struct served *served, const struct served_entry *entry)
{
	const struct served_entry *known = served_find(served, entry->uid, entry->container);

	if (!known || !served_has_ids(known, entry->ids, entry->n_ids))
		known = served_find_ids(served, NULL, entry->ids, entry->n_ids);
	return known && known->waits;
}

/* The call that was answered this device had these ids, and was not for the container that the agent deduced.
 * NULL: there is no such container in the record. */
static const struct served_entry *find_mistaken(
	const struct served *served, const struct served *checkpoint, const struct served_entry *owner)
{
	const struct served_entry *mistaken = owner->device ? find_name(served, owner->device, owner) : NULL;

	if (mistaken && !served_find(checkpoint, mistaken->uid, mistaken->container) &&
		served_has_ids(mistaken, owner->ids, owner->n_ids))
		return mistaken;
	return NULL;
}

static bool is_shared(
	const struct served *checkpoint, const struct node_pods *pods, const struct served_entry *entry)
{
	list_for_each (item, &checkpoint->entries) {
		const struct served_entry *other = list_entry(item, struct served_entry, item);

		if (node_pods_by_uid(pods, other->uid) && served_has_ids(other, entry->ids, entry->n_ids))
			return true;
	}
	return false;
}

/* The checkpoint keeps a pod that is over until the kubelet gives devices again, and another pod may have the
 * same ids (served_find_ids()). The entry stays forgotten. If no other pod has the ids that the kubelet asks
 * for (wanted), they may be those of a pod that the API server has not shown yet. */
static bool is_over(const struct served *served, const struct served *checkpoint,
	const struct node_pods *pods, const struct served_entry *entry, bool wanted)
{
	if (!pods || node_pods_by_uid(pods, entry->uid) ||
		served_find(served, entry->uid, entry->container) || find_mistaken(served, checkpoint, entry))
		return false;
	return !wanted || is_shared(checkpoint, pods, entry);
}

static int take_all(struct served *served, const struct served *checkpoint, const struct node_pods *pods,
	char *const *ids, size_t n_ids, bool *ret_found)
{
	_cleanup_served_ struct served taken;
	bool mistakes = false;
	int r = 0;

	served_init(&taken);
	list_for_each (item, &checkpoint->entries)
		mistakes |= list_entry(item, struct served_entry, item)->device != NULL;
	list_for_each (item, &checkpoint->entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);
		bool has_ids = served_has_ids(entry, ids, n_ids);

		*ret_found |= has_ids;
		if (r < 0 || (!has_ids && !(mistakes && is_known(served, entry) &&
						  (entry->device || is_named(checkpoint, entry)))))
			continue;
		if (is_over(served, checkpoint, pods, entry, has_ids))
			continue;
		r = served_take(&taken, entry);
		served_set_waits(&taken, entry->uid, entry->container, ids_wait(served, entry));
	}
	list_for_each (item, &taken.entries)
		if (r == 0)
			r = served_take(served, list_entry(item, struct served_entry, item));
	return r;
}

int answered_follow(struct served *served, const struct served *checkpoint, const struct node_pods *pods,
	char *const *ids, size_t n_ids, enum answered *ret)
{
	enum answered worst = ANSWERED_UNKNOWN;
	bool found = false;
	int r = take_all(served, checkpoint, pods, ids, n_ids, &found);

	if (r < 0)
		return r;
	list_for_each (item, &checkpoint->entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);
		const struct served_entry *known = served_find(served, entry->uid, entry->container);
		const struct served_entry *mistaken = entry->device && known
							      ? find_mistaken(served, checkpoint, known)
							      : NULL;

		if (mistaken)
			served_remove(served, mistaken);
	}
	list_for_each (item, &checkpoint->entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);
		const struct served_entry *known = served_find(served, entry->uid, entry->container);
		enum answered answered;

		if (!found || !known || !served_has_ids(entry, ids, n_ids))
			continue;
		answered = answered_check(served, known);
		worst = answered > worst ? answered : worst;
	}
	*ret = worst;
	return 0;
}
