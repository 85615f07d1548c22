/* watch.h - a mirror of one kind of object: LIST in pages, then WATCH with bookmarks, without end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct json_object;
struct kube_client;
struct kube_watch;
struct loop;

/* object() - an object exists and looks like this. It is called repeatedly, also for unchanged objects after
 * a new LIST. deleted() - the object is gone; also called for objects that a new LIST no longer has. `last`
 * is the last state (with DELETED events) or NULL. synced() - the first LIST (and each later one, after the
 * resourceVersion expired) is completely delivered. absent() - the API server does not have the collection,
 * or forbids access (404, 403). The LIST is tried again as after any failure. May be NULL. connected() - a
 * WATCH has opened or ended; may be NULL. The json_object is borrowed for the call. Objects are identified by
 * metadata.uid. */
struct kube_watch_ops {
	void (*object)(void *userdata, struct json_object *object);
	void (*deleted)(void *userdata, const char *uid, struct json_object *last);
	void (*synced)(void *userdata);
	void (*absent)(void *userdata);
	void (*connected)(void *userdata, bool connected);
};

/* kube_watch_start() - collection e.g. "/api/v1/pods"; query e.g. "fieldSelector=spec.nodeName%3Dn1" or NULL.
 * The watch never gives up. Errors are logged (once per change of text) and retried with back-off 0.1 s .. 5
 * s with jitter; 410 Gone and "too old resource version" start a new LIST. A silent server is detected:
 * watches have timeoutSeconds and also end by themselves. */
int kube_watch_start(struct kube_client *client, struct loop *loop, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_watch);
/* kube_list_start() - the same without WATCH: nothing follows after synced(), and deleted() is never called.
 * If a failure makes the LIST begin again, object() may show an object that is deleted meanwhile. */
int kube_list_start(struct kube_client *client, struct loop *loop, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_list);
/* kube_watch_free() - do not call it from within its own ops. Accepts NULL. */
void kube_watch_free(struct kube_watch *watch);

/* kube_watch_set_idle_ms() - how long a server may send nothing before the client connects again. The default
 * is longer than the minute between two bookmarks. Applies from the next request on. */
void kube_watch_set_idle_ms(struct kube_watch *watch, int idle_ms);

/* kube_watch_set_backoff_max_ms() - the maximum between two tries, instead of 5 s, for programs with few
 * instances. */
void kube_watch_set_backoff_max_ms(struct kube_watch *watch, uint32_t backoff_max_ms);

/* kube_watch_set_first_list_query() - an additional query of the first LIST only, for example a selector that
 * leaves out finished objects. Later LISTs have no selector, because with one, the end of an object looks
 * like its deletion. The WATCH has none for the same reason (apiserver storage/cacher
 * convertToWatchEvent; 1.36.3). Borrowed. */
void kube_watch_set_first_list_query(struct kube_watch *watch, const char *query);

/* kube_watch_synced() - the first LIST was delivered. kube_watch_connected() - a WATCH is open now. */
bool kube_watch_synced(const struct kube_watch *watch);
bool kube_watch_connected(const struct kube_watch *watch);

/* kube_watch_version() - the resourceVersion up to which everything was delivered; "" while a LIST is due.
 * Valid until the next call of an op. */
const char *kube_watch_version(const struct kube_watch *watch);

/* The counts of a watch since its start, for the metrics. */
struct kube_watch_counts {
	uint64_t lists;		 /* LISTs begun: the first, and one after each expiry or failure */
	uint64_t connections;	 /* WATCH requests that were answered */
	uint64_t events;	 /* events of a WATCH, including bookmarks */
	int64_t last_message_ns; /* monotonic: the last event, or end of a LIST; 0: none yet */
};
const struct kube_watch_counts *kube_watch_counts(const struct kube_watch *watch);
