#include "agent/container/runtime.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/runc.h"
#include "agent/cri.pb-c.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/json.h"
#include "net/grpc-client.h"
#include "net/loop.h"

#define ANSWER_MAX ((size_t)4 << 20)
#define TIMEOUT_MS 2000
#define AGAIN_NS (2 * NS_PER_S)

struct runtime {
	const char *socket, *cdi_dir;
	struct grpc_client *cri;
	struct grpc_client_call *call;
	struct loop_timer *timer;
	struct runc *runc;
	void (*changed)(void *userdata);
	void *userdata;
	bool answered, does_cdi, complained;
};

/* /var/run is a link to /run everywhere that matters, but the agent's container may see only one of them. */
static const char *without_var(const char *dir)
{
	return strncmp(dir, "/var/run/", 9) == 0 ? dir + 4 : dir;
}

static bool same_directory(const char *a, const char *b)
{
	size_t len_a, len_b;

	a = without_var(a);
	b = without_var(b);
	for (len_a = strlen(a); len_a > 1 && a[len_a - 1] == '/'; len_a--)
		;
	for (len_b = strlen(b); len_b > 1 && b[len_b - 1] == '/'; len_b--)
		;
	return len_a == len_b && memcmp(a, b, len_a) == 0;
}

bool runtime_config_does_cdi(const char *config, size_t len, const char *cdi_dir)
{
	_cleanup_json_ struct json_object *root = NULL;
	struct json_object *dirs, *enabled;

	if (json_parse(config, len, &root, NULL) < 0)
		return false;
	enabled = json_member(root, "enableCDI");
	if (enabled && !(json_object_is_type(enabled, json_type_boolean) && json_object_get_boolean(enabled)))
		return false;
	dirs = json_member(root, "cdiSpecDirs");
	/* CRI-O puts its own configuration there, with the names of the Go fields (1.34.0,
	 * server/runtime_status.go). It has no switch: CDI is always on. */
	if (!dirs)
		dirs = json_member(json_member(root, "crio"), "CDISpecDirs");
	for (size_t i = 0; i < json_count(dirs); i++) {
		const char *dir = json_string(json_object_array_get_idx(dirs, i));

		if (dir && same_directory(dir, cdi_dir))
			return true;
	}
	return false;
}

static void runtime_learn(struct runtime *runtime, const uint8_t *message, size_t len)
{
	_cleanup_arena_ struct wire_arena arena;
	const Runtime__V1__StatusResponse *status;
	bool does_cdi = false, changed;

	wire_arena_init(&arena, 4 * ANSWER_MAX);
	status = wire_unpack(&arena, &runtime__v1__status_response__descriptor, message, len);
	for (size_t i = 0; status && i < status->n_info; i++)
		if (strcmp(status->info[i]->key, "config") == 0) {
			const char *config = status->info[i]->value;

			does_cdi |= runtime_config_does_cdi(config, strlen(config), runtime->cdi_dir);
			runc_configured(runtime->runc, config, strlen(config));
		}
	changed = !runtime->answered || runtime->does_cdi != does_cdi;
	runtime->answered = true;
	runtime->does_cdi = does_cdi;
	if (!changed)
		return;
	if (does_cdi)
		log_info("the container runtime applies CDI files of %s", runtime->cdi_dir);
	else
		log_warning(
			"the container runtime (%s) does not apply CDI files of %s: containers get variables and device nodes, and NVIDIA's runtime must bring the driver's files",
			runtime->socket, runtime->cdi_dir);
	runtime->changed(runtime->userdata);
}

static void on_reply(void *userdata, const struct grpc_reply *reply)
{
	struct runtime *runtime = userdata;
	char text[600];

	runtime->call = NULL;
	if (reply->result == 0 && reply->status == GRPC_OK) {
		runtime_learn(runtime, reply->message, reply->len);
		return;
	}
	if (!runtime->complained)
		log_warning("cannot ask the container runtime at %s: %s; trying again", runtime->socket,
			grpc_reply_text(reply, text, sizeof(text)));
	runtime->complained = true;
	loop_timer_set(runtime->timer, AGAIN_NS);
}

void runtime_ask(struct runtime *runtime)
{
	static const uint8_t verbose[] = {0x08, 0x01}; /* StatusRequest{verbose: true} */
	int r;

	if (runtime->call)
		return;
	r = grpc_client_call(runtime->cri, "/runtime.v1.RuntimeService/Status", verbose, sizeof(verbose),
		TIMEOUT_MS, on_reply, runtime, &runtime->call);
	if (r == 0)
		return;
	if (!runtime->complained)
		log_warning("cannot ask the container runtime at %s: %s; trying again", runtime->socket,
			strerror(-r));
	runtime->complained = true;
	loop_timer_set(runtime->timer, AGAIN_NS);
}

static void on_timer(void *userdata)
{
	runtime_ask(userdata);
}

int runtime_new(struct loop *loop, struct grpc_client *cri, const char *socket, const char *cdi_dir,
	void (*changed)(void *userdata), void *userdata, struct runtime **ret_runtime)
{
	struct runtime *runtime = calloc(1, sizeof(*runtime));
	int r;

	if (!runtime)
		return -ENOMEM;
	*runtime = (struct runtime){
		.cri = cri, .socket = socket, .cdi_dir = cdi_dir, .changed = changed, .userdata = userdata};
	r = loop_add_timer(loop, on_timer, runtime, &runtime->timer);
	if (r == 0)
		r = runc_new(cri, changed, userdata, &runtime->runc);
	if (r < 0) {
		runtime_free(runtime);
		return r;
	}
	loop_timer_set(runtime->timer, 0);
	*ret_runtime = runtime;
	return 0;
}

void runtime_free(struct runtime *runtime)
{
	if (!runtime)
		return;
	grpc_client_cancel(runtime->call);
	loop_timer_remove(runtime->timer);
	runc_free(runtime->runc);
	free(runtime);
}

void runtime_remember(struct runtime *runtime, bool does_cdi)
{
	runtime->answered = true;
	runtime->does_cdi = does_cdi;
}

const char *runtime_runc_version(const struct runtime *runtime)
{
	return runc_version(runtime->runc);
}

bool runtime_answered(const struct runtime *runtime)
{
	return runtime->answered;
}

bool runtime_does_cdi(const struct runtime *runtime)
{
	return runtime->does_cdi;
}
