#include "agent/dra/service.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dra/deps.h"
#include "agent/dra/health-stream.h"
#include "agent/dra/prepare.h"
#include "agent/registration.pb-c.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "kube/names.h"
#include "net/grpc-server.h"

#define SOCKET "dra.sock"
#define ARENA_MAX ((size_t)1 << 20)

struct service {
	const struct dra_deps *deps;
	struct preparer *preparer;
	struct health_stream *health;
	struct grpc_server *plugin, *registration;
	bool registered;
	char refusal[300];
};

static int endpoint_path(const struct service *service, char ret_path[PATH_MAX])
{
	return snprintf(ret_path, PATH_MAX, "%s/plugins/" DRA_DRIVER "/" SOCKET, service->deps->kubelet_dir) <
			       PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

/* ---- registration ---- */

static void reply(struct grpc_call *call, const ProtobufCMessage *message)
{
	_cleanup_free_ uint8_t *packed = NULL;
	size_t len = 0;

	packed = wire_pack(message, &len);
	if (packed)
		grpc_call_reply(call, packed, len);
	else
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

static void handle_get_info(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	char *versions[] = {(char *)"v1.DRAPlugin"};
	Registration__PluginInfo info = REGISTRATION__PLUGIN_INFO__INIT;
	const struct service *service = userdata;
	char endpoint[PATH_MAX];

	if (endpoint_path(service, endpoint) < 0) {
		grpc_call_fail(call, GRPC_INTERNAL, "the path of the socket is too long");
		return;
	}
	info.type = (char *)"DRAPlugin";
	info.name = (char *)DRA_DRIVER;
	info.endpoint = endpoint;
	info.supported_versions = versions;
	info.n_supported_versions = ARRAY_SIZE(versions);
	reply(call, &info.base);
}

static void handle_notify(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	const Registration__RegistrationStatus *status;
	struct service *service = userdata;
	_cleanup_arena_ struct wire_arena arena;

	wire_arena_init(&arena, ARENA_MAX);
	status = wire_unpack(&arena, &registration__registration_status__descriptor, message, len);
	if (!status) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a RegistrationStatus");
		return;
	}
	if (status->plugin_registered && !service->registered)
		log_info("the kubelet has registered " DRA_DRIVER);
	if (!status->plugin_registered)
		log_warning("the kubelet does not register " DRA_DRIVER ": %.300s", status->error);
	service->registered = service->deps->kept->registered = status->plugin_registered;
	snprintf(service->refusal, sizeof(service->refusal), "%.299s",
		status->plugin_registered ? "" : status->error);
	grpc_call_reply(call, NULL, 0);
	service->deps->changed(service->deps->userdata);
}

static const struct grpc_method REGISTRATION[] = {
	{"/pluginregistration.Registration/GetInfo", handle_get_info, NULL},
	{"/pluginregistration.Registration/NotifyRegistrationStatus", handle_notify, NULL},
};

/* ---- the plugin ---- */

static void handle_prepare(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	preparer_prepare(((struct service *)userdata)->preparer, call, message, len);
}

static void handle_unprepare(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	preparer_unprepare(((struct service *)userdata)->preparer, call, message, len);
}

static void prepare_closed(void *userdata, struct grpc_call *call)
{
	preparer_closed(((struct service *)userdata)->preparer, call);
}

static void handle_watch(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	health_stream_open(((struct service *)userdata)->health, call);
}

static void watch_closed(void *userdata, struct grpc_call *call)
{
	health_stream_closed(((struct service *)userdata)->health, call);
}

#define SERVICE "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"

static const struct grpc_method PLUGIN[] = {
	{SERVICE "NodePrepareResources", handle_prepare, prepare_closed},
	{SERVICE "NodeUnprepareResources", handle_unprepare, NULL},
	{"/v1alpha1.DRAResourceHealth/NodeWatchResources", handle_watch, watch_closed},
};

/* ---- sockets ---- */

static int listen_at(struct service *service, const char *path, const struct grpc_method *methods, size_t n,
	struct kept_socket *kept, struct grpc_server **server, struct error *err)
{
	_cleanup_free_ char *folder = strdup(path);

	if (*server && access(path, F_OK) == 0)
		return 0;
	if (!folder)
		return error_set(err, ENOMEM, "out of memory");
	*strrchr(folder, '/') = '\0';
	fs_mkdir_parents(folder, 0750);
	if (*server)
		return grpc_server_listen_again(*server, err);
	return grpc_server_new(service->deps->loop, path, methods, n, service, kept, server, err);
}

/* The kubelet dials the plugin as soon as it sees the socket of the registration. */
int service_open(struct service *service, struct error *err)
{
	struct dra_kept *kept = service->deps->kept;
	char path[PATH_MAX];
	int r = endpoint_path(service, path);

	if (r == 0)
		r = listen_at(
			service, path, PLUGIN, ARRAY_SIZE(PLUGIN), &kept->plugin, &service->plugin, err);
	if (r < 0)
		return r;
	if (snprintf(path, sizeof(path), "%s/plugins_registry/" DRA_DRIVER "-reg.sock",
		    service->deps->kubelet_dir) >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "%s: the path is too long", service->deps->kubelet_dir);
	/* The kubelet has seen nothing of the end of the worker that it registered, and does not call again.
	 */
	if (!service->registration && kept_socket_is_at(&kept->registration, path))
		service->registered = kept->registered;
	return listen_at(service, path, REGISTRATION, ARRAY_SIZE(REGISTRATION), &kept->registration,
		&service->registration, err);
}

/* A worker that has not opened the sockets leaves what the one before it has left. */
void service_close(struct service *service)
{
	if (service->registration)
		service->deps->kept->registered = false;
	grpc_server_free(service->registration);
	grpc_server_free(service->plugin);
	service->registration = service->plugin = NULL;
	service->registered = false;
	service->refusal[0] = '\0';
}

bool service_is_registered(const struct service *service)
{
	return service->registered;
}

const char *service_refusal(const struct service *service)
{
	return service->refusal;
}

int service_new(const struct dra_deps *deps, struct preparer *preparer, struct health_stream *health,
	struct service **ret_service)
{
	struct service *service = calloc(1, sizeof(*service));

	if (!service)
		return -ENOMEM;
	service->deps = deps;
	service->preparer = preparer;
	service->health = health;
	*ret_service = service;
	return 0;
}

void service_free(struct service *service)
{
	if (!service)
		return;
	service_close(service);
	free(service);
}
