/* registrar.h - Register at the kubelet, and again within 50 ms of its return. A kubelet that admits pods
 * before that kills running ones with init containers, and fails new ones for good (tried at 1.36.3: 5 ms
 * survived, 4 s did not). So inotify watches the plugin directory, and no other request comes before. Only at
 * its own start the agent asks for the kubelet's list of pods first (kubelet_offer()). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct kubelet;
struct registrar;

/* One resource. */
struct registration {
	const char *resource; /* aliyun.com/... */
	const char *endpoint; /* its socket's name in the plugin directory */
	bool decides;	      /* the kubelet must ask for preferred ids, and before each start */
	void (*listen)(struct kubelet *kubelet); /* asks for the socket; answered by registrar_listening() */
	bool (*watched)(const struct kubelet *kubelet); /* the kubelet has a ListAndWatch open */
	void (*kubelet_started)(
		struct kubelet *kubelet); /* the kubelet has started, and the plugin is not registered yet */
};

int registrar_new(
	struct kubelet *kubelet, const struct registration *registration, struct registrar **ret_registrar);
void registrar_free(struct registrar *registrar); /* accepts NULL */

/* registrars_watch_dir() - watches the plugin directory for all registrars, unless it is watched already.
 * Call it at least once a second, because the directory may be made later. */
void registrars_watch_dir(struct kubelet *kubelet);

/* registrar_want() - from now on (and for ever) there is something to register. */
void registrar_want(struct registrar *registrar);

/* registrar_unwatched() - the kubelet has closed its last ListAndWatch. If it does not open another, it may
 * have dropped us. */
void registrar_unwatched(struct registrar *registrar);

/* registrar_failure() - while the kubelet does not have the devices: which resource, and why, as far as the
 * last attempt has shown. */
void registrar_failure(const struct registrar *registrar, char *buf, size_t size);

/* registrar_listening() - the answer to registration.listen(): the socket is there (text NULL), or why not.
 */
void registrar_listening(struct registrar *registrar, const char *text);
