#include "agent/kubelet/registrar.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/runtime.h"
#include "agent/deviceplugin.pb-c.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "net/grpc-client.h"
#include "net/loop.h"

#define TIMEOUT_MS 15000 /* the kubelet dials back for up to 10 s before it answers */
#define FIRST_RETRY_NS (1 * NS_PER_MS)
#define LAST_RETRY_NS (1 * NS_PER_S)
#define UNWATCHED_NS (2 * NS_PER_S) /* how long the kubelet may take to open its ListAndWatch */
#define DROPPED_NS (10 * NS_PER_MS) /* the kubelet has closed it */

struct registrar {
	struct kubelet *kubelet;
	const struct registration *registration;
	struct loop_timer *timer;
	struct grpc_client *client;
	struct grpc_client_call *call;
	bool wanted, registered;
	bool asking; /* the supervisor is being asked for the socket */
	bool anew;   /* there is a new kubelet: it does not know this plugin, whatever is still open */
	int64_t since_ns, retry_ns, registered_ns;
	char failure[256]; /* of the last attempt, "" if it succeeded or before the first attempt */
};

static void registrar_try(struct registrar *r);

static void registrar_retry(struct registrar *r)
{
	loop_timer_set(r->timer, r->retry_ns);
	r->retry_ns = r->retry_ns * 2 > LAST_RETRY_NS ? LAST_RETRY_NS : r->retry_ns * 2;
}

/* kubelet.c reports this if it lasts: right after a start the kubelet does not listen at its socket yet.
 */
static void registrar_failed(struct registrar *r, const char *where, const char *why)
{
	snprintf(r->failure, sizeof(r->failure), "%.120s%s%.120s", where, *where ? ": " : "", why);
	registrar_retry(r);
}

static void registrar_unreached(struct registrar *r, int error)
{
	char socket[PATH_MAX];

	kubelet_socket_path(r->kubelet->deps.plugin_dir, socket);
	registrar_failed(r, socket, strerror(-error));
}

void registrar_failure(const struct registrar *r, char *buf, size_t size)
{
	snprintf(buf, size, "the kubelet does not have %s: %s", r->registration->resource,
		*r->failure ? r->failure : "it does not ask for the devices");
}

static void on_registered(void *userdata, const struct grpc_reply *reply)
{
	struct registrar *r = userdata;
	char text[GRPC_TEXT_MAX + 100];

	r->call = NULL;
	if (reply->result < 0 || reply->status != GRPC_OK) {
		r->kubelet->counts.registration_failures++;
		if (reply->result < 0)
			registrar_unreached(r, reply->result);
		else
			registrar_failed(
				r, "its answer to Register", grpc_reply_text(reply, text, sizeof(text)));
		return;
	}
	r->failure[0] = '\0';
	r->registered = true;
	r->anew = false;
	r->registered_ns = monotonic_ns();
	r->kubelet->counts.last_registration_ns = monotonic_ns() - r->since_ns;
	histogram_observe(&r->kubelet->counts.registration, r->kubelet->counts.last_registration_ns);
	log_info("registered %s at the kubelet after %.1f ms", r->registration->resource,
		(double)r->kubelet->counts.last_registration_ns / NS_PER_MS);
	runtime_ask(r->kubelet->deps.runtime);
	loop_timer_set(r->timer, UNWATCHED_NS);
}

/* The plugin must serve first, because the kubelet dials back before it answers. */
static void registrar_try(struct registrar *r)
{
	if (!r->wanted || r->call || r->asking)
		return;
	r->asking = true;
	r->registration->listen(r->kubelet);
}

static void registrar_send(struct registrar *r)
{
	_cleanup_free_ uint8_t *packed = NULL;
	size_t len = 0;
	int error;

	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;

	options.pre_start_required = r->registration->decides;
	options.get_preferred_allocation_available = r->registration->decides;
	request.version = "v1beta1";
	request.endpoint = (char *)r->registration->endpoint;
	request.resource_name = (char *)r->registration->resource;
	request.options = &options;
	packed = wire_pack(&request.base, &len);
	error = packed ? grpc_client_call(r->client, "/v1beta1.Registration/Register", packed, len,
				 TIMEOUT_MS, on_registered, r, &r->call)
		       : -ENOMEM;
	if (error < 0)
		registrar_unreached(r, error);
}

void registrar_listening(struct registrar *r, const char *text)
{
	r->asking = false;
	if (text) {
		registrar_failed(r, "", text);
		return;
	}
	/* The kubelet's connections belong to the supervisor, so the kubelet has not noticed the change of
	 * the worker. */
	if (r->registration->watched(r->kubelet) && !r->anew && !r->call) {
		if (!r->registered)
			log_info("the kubelet still watches our devices: nothing to register (%s)",
				r->registration->resource);
		r->registered = true;
		return;
	}
	if (!r->call)
		registrar_send(r);
}

static void registrar_begin(struct registrar *r, bool anew)
{
	r->anew |= anew;
	r->registered = false;
	r->since_ns = monotonic_ns();
	r->retry_ns = FIRST_RETRY_NS;
	loop_timer_stop(r->timer);
	/* The connection to the earlier kubelet must not be taken for one to the new kubelet. This also ends
	 * a Register in flight; its callback asks for a retry. */
	grpc_client_disconnect(r->client);
	loop_timer_stop(r->timer);
	r->retry_ns = FIRST_RETRY_NS;
	registrar_try(r);
}

static void registrar_on_event(struct registrar *r, const struct inotify_event *event)
{
	if (event->mask & IN_IGNORED)
		registrar_retry(r); /* the directory may be made again at once */
	if (event->mask & IN_Q_OVERFLOW)
		registrar_begin(r, true);
	if (!event->len)
		return;
	if (event->mask & (IN_CREATE | IN_MOVED_TO) && strcmp(event->name, KUBELET_SOCKET) == 0) {
		r->registration->kubelet_started(r->kubelet);
		registrar_begin(r, true);
	}
	/* A starting kubelet removes all sockets. A user may also have removed this one: then the kubelet's
	 * connection lives on, and only the file is missing. */
	if (event->mask & IN_DELETE && strcmp(event->name, r->registration->endpoint) == 0 && r->registered)
		registrar_begin(r, false);
}

static void on_dir(void *userdata, const struct inotify_event *event)
{
	struct kubelet *kubelet = userdata;

	if (event->mask & IN_IGNORED) {
		loop_watch_remove(kubelet->dir_watch);
		kubelet->dir_watch = NULL;
	}
	registrar_on_event(kubelet->registrar, event);
	registrar_on_event(kubelet->core_registrar, event);
	registrar_on_event(kubelet->gpu_registrar, event);
}

void registrars_watch_dir(struct kubelet *kubelet)
{
	const char *dir = kubelet->deps.plugin_dir;
	int r = 0;

	if (!kubelet->dir_watch)
		r = loop_add_watch(kubelet->deps.loop, dir, IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR,
			on_dir, kubelet, &kubelet->dir_watch);
	/* If no kubelet ever started here, the directory does not exist yet. */
	if (r < 0 && r != -ENOENT && !kubelet->dir_complained)
		log_warning(
			"cannot watch %s: %s; a kubelet that restarts learns of the GPUs late. If a limit is reached, raise fs.inotify.max_user_instances or fs.inotify.max_user_watches on this node",
			dir, strerror(-r));
	kubelet->dir_complained = r < 0 && r != -ENOENT;
}

static void on_timer(void *userdata)
{
	struct registrar *r = userdata;

	registrars_watch_dir(r->kubelet);
	if (!r->registered)
		registrar_try(r);
	else if (!r->registration->watched(r->kubelet))
		registrar_begin(r, false);
}

int registrar_new(
	struct kubelet *kubelet, const struct registration *registration, struct registrar **ret_registrar)
{
	struct registrar *r = calloc(1, sizeof(*r));
	char path[PATH_MAX];
	int error;

	if (!r)
		return -ENOMEM;
	*r = (struct registrar){.kubelet = kubelet, .registration = registration, .retry_ns = FIRST_RETRY_NS};
	kubelet_socket_path(kubelet->deps.plugin_dir, path);
	error = grpc_client_new(kubelet->deps.loop, path, 65536, &r->client);
	if (error == 0)
		error = loop_add_timer(kubelet->deps.loop, on_timer, r, &r->timer);
	if (error < 0) {
		registrar_free(r);
		return error;
	}
	*ret_registrar = r;
	return 0;
}

void registrar_free(struct registrar *r)
{
	if (!r)
		return;
	grpc_client_free(r->client);
	loop_timer_remove(r->timer);
	free(r);
}

void registrar_want(struct registrar *r)
{
	if (r->wanted)
		return;
	r->wanted = true;
	registrar_begin(r, false);
}

void registrar_unwatched(struct registrar *r)
{
	/* Registers at once, unless the kubelet has just dropped this plugin before: then only the kubelet
	 * knows why. */
	if (r->registered)
		loop_timer_set(r->timer,
			monotonic_ns() - r->registered_ns < UNWATCHED_NS ? UNWATCHED_NS : DROPPED_NS);
}
