#include "agent/container/images.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cri.pb-c.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/json.h"
#include "kube/names.h"
#include "net/grpc-client.h"

#define ANSWER_MAX ((size_t)4 << 20)
#define NAME_MAX_LEN 1024
#define TIMEOUT_MS 2000
#define GOOD_NS (5 * NS_PER_S)

struct images {
	struct grpc_client *cri;
	struct grpc_client_call *call;
	char *asked;	/* the image that it is about */
	char *answered; /* the last one that there is an answer for */
	char *text;
	int64_t answered_ns;
	bool complained;
	void (*on_answer)(void *userdata);
	void *userdata;
};

int images_new(
	struct grpc_client *cri, void (*answered)(void *userdata), void *userdata, struct images **ret_images)
{
	struct images *images = calloc(1, sizeof(*images));

	if (!images)
		return -ENOMEM;
	images->on_answer = answered;
	images->userdata = userdata;
	images->cri = cri;
	*ret_images = images;
	return 0;
}

void images_free(struct images *images)
{
	if (!images)
		return;
	grpc_client_cancel(images->call);
	free(images->asked);
	free(images->answered);
	free(images->text);
	free(images);
}

char *images_read(const char *info, size_t len)
{
	static const char variable[] = ENV_DRIVER_CAPABILITIES "=";
	_cleanup_json_ struct json_object *root = NULL;
	const char *found = NULL;
	struct json_object *env;

	if (json_parse(info, len, &root, NULL) < 0)
		return NULL;
	env = json_member(json_member(json_member(root, "imageSpec"), "config"), "Env");
	for (size_t i = 0; i < json_count(env); i++) {
		const char *entry = json_string(json_object_array_get_idx(env, i));

		if (entry && strncmp(entry, variable, strlen(variable)) == 0)
			found = entry + strlen(variable);
	}
	return found ? strdup(found) : NULL;
}

static char *read_reply(const struct grpc_reply *reply)
{
	_cleanup_arena_ struct wire_arena arena;
	const Runtime__V1__ImageStatusResponse *status;

	wire_arena_init(&arena, 4 * ANSWER_MAX);
	status = wire_unpack(
		&arena, &runtime__v1__image_status_response__descriptor, reply->message, reply->len);
	for (size_t i = 0; status && i < status->n_info; i++)
		if (strcmp(status->info[i]->key, "info") == 0)
			return images_read(status->info[i]->value, strlen(status->info[i]->value));
	return NULL;
}

static void learn(struct images *images, char *text)
{
	free(images->answered);
	free(images->text);
	images->answered = TAKE_PTR(images->asked);
	images->text = text;
	images->answered_ns = monotonic_ns();
	images->on_answer(images->userdata);
}

static void on_reply(void *userdata, const struct grpc_reply *reply)
{
	struct images *images = userdata;
	char text[600];

	images->call = NULL;
	if (reply->result == 0 && reply->status == GRPC_OK) {
		learn(images, read_reply(reply));
		images->complained = false;
		return;
	}
	if (!images->complained)
		log_warning(
			"cannot ask the container runtime about image %s: %s; its containers get the driver's files without what its " ENV_DRIVER_CAPABILITIES
			" says",
			images->asked, grpc_reply_text(reply, text, sizeof(text)));
	images->complained = true;
	learn(images, NULL);
}

int images_capabilities(struct images *images, const char *name, const char **ret_text)
{
	uint8_t message[NAME_MAX_LEN + 32];
	size_t len;

	*ret_text = NULL;
	if (images->answered && strcmp(images->answered, name) == 0 &&
		monotonic_ns() - images->answered_ns < GOOD_NS) {
		*ret_text = images->text;
		return 0;
	}
	if (strlen(name) > NAME_MAX_LEN)
		return 0;
	if (images->call)
		return -EBUSY;
	free(images->asked);
	images->asked = strdup(name);
	if (!images->asked)
		return 0;
	/* ImageStatusRequest{image: {image: name}, verbose: true} */
	Runtime__V1__ImageSpec image = RUNTIME__V1__IMAGE_SPEC__INIT;
	Runtime__V1__ImageStatusRequest request = RUNTIME__V1__IMAGE_STATUS_REQUEST__INIT;

	image.image = images->asked;
	request.image = &image;
	request.verbose = true;
	len = runtime__v1__image_status_request__pack(&request, message);
	if (grpc_client_call(images->cri, "/runtime.v1.ImageService/ImageStatus", message, len, TIMEOUT_MS,
		    on_reply, images, &images->call) < 0)
		return 0;
	return -EBUSY;
}
