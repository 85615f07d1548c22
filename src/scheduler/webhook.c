#include "scheduler/webhook.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/metrics.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/names.h"
#include "net/certificate.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/admission.h"
#include "scheduler/certificates.h"
#include "scheduler/scheduler.h"

/* A review contains the pod at most twice, in JSON; a pod has at most 1.5 MiB (etcd's limit). */
#define REVIEW_MAX (8 << 20)
#define LOOK_NS (10 * NS_PER_S)
#define WRITTEN_NS (200 * NS_PER_MS)
/* API servers learn of a changed configuration by a watch, within milliseconds. */
#define TRUSTED_AFTER_NS (30 * NS_PER_S)
#define TIMEOUT_MS 5000
#define NAME_MAX_LEN 63

#define CONFIGURATIONS "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"
#define CA_BUNDLE "/webhooks/0/clientConfig/caBundle"

/* Each has one webhook. The charts' values determine which of them exist. */
static const char *const configurations[] = {WEBHOOK_SCHEDULER_NAME, WEBHOOK_UNIT_STAMP};
#define N_CONFIGURATIONS (sizeof(configurations) / sizeof(configurations[0]))

enum review_result { REVIEW_ANSWERED, REVIEW_BAD, REVIEW_FAILED, REVIEW_RESULT_MAX };
static const char *const review_results[REVIEW_RESULT_MAX] = {"answered", "bad_request", "failed"};

struct webhook {
	struct scheduler *scheduler;
	struct http_server *server;
	struct loop_timer *timer;
	struct kube_request *request;
	char secret_path[256], dns_name[160];
	struct certificates certificates; /* as last read */
	char *shown;			  /* the certificate that the server presents */
	char *bundle;			  /* what the configurations must trust */
	/* Whether all configurations have the bundle. They are checked one after the other. */
	struct {
		size_t configuration; /* the one that is being checked */
		bool all;	      /* all that were checked in this round already had the bundle */
		int64_t since_ns;     /* 0: not all of them have it */
	} trust;
	int64_t ends_s; /* end of the certificate that is presented; 0: none */
	bool known;
	uint64_t results[REVIEW_RESULT_MAX];
	uint64_t failures;
	char trouble[300]; /* the last trouble that was logged, "" when all is well */
};

static bool is_label(const char *text, size_t len)
{
	if (len == 0 || len > NAME_MAX_LEN || text[0] == '-' || text[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) && text[i] != '-')
			return false;
	return true;
}

bool webhook_is_valid_service(const char *service)
{
	const char *slash = strchr(service, '/');

	return slash && is_label(service, (size_t)(slash - service)) &&
	       is_label(slash + 1, strlen(slash + 1));
}

static void turn_ends(struct webhook *webhook)
{
	webhook->known = true;
	loop_timer_set(webhook->timer, LOOK_NS);
}

static void turn_failed(struct webhook *webhook, const char *verb, const char *what, const char *text)
{
	char line[sizeof(webhook->trouble)];

	webhook->failures++;
	snprintf(line, sizeof(line), "webhook: cannot %s %s: %s", verb, what, text);
	if (strcmp(line, webhook->trouble) != 0) {
		log_warning("%s", line);
		memcpy(webhook->trouble, line, sizeof(line));
	}
	turn_ends(webhook);
}

static void ask(struct webhook *webhook, const char *method, const char *path, const char *type,
	const char *body, kube_response_fn fn)
{
	int r = kube_request(webhook->scheduler->client, method, path, type, body, TIMEOUT_MS, fn, webhook,
		&webhook->request);

	if (r < 0)
		turn_failed(webhook, method, path, strerror(-r));
}

static void configuration_look(struct webhook *webhook);

static void configuration_next(struct webhook *webhook)
{
	if (++webhook->trust.configuration < N_CONFIGURATIONS) {
		configuration_look(webhook);
		return;
	}
	if (!webhook->trust.all)
		webhook->trust.since_ns = 0;
	else if (!webhook->trust.since_ns)
		webhook->trust.since_ns = monotonic_ns();
	webhook->trouble[0] = '\0';
	turn_ends(webhook);
}

static void on_configuration_patched(void *userdata, const struct kube_response *response)
{
	struct webhook *webhook = userdata;
	const char *name = configurations[webhook->trust.configuration];

	webhook->request = NULL;
	if (response->result < 0 || (response->status / 100 != 2 && response->status != 404)) {
		turn_failed(webhook, "write the MutatingWebhookConfiguration", name, response->text);
		return;
	}
	log_info("webhook: the MutatingWebhookConfiguration %s trusts the certificate", name);
	configuration_next(webhook);
}

static void configuration_patch(struct webhook *webhook, const char *path)
{
	_cleanup_json_ struct json_object *patch = json_object_new_array();
	struct json_object *step = json_new_pair("op", "add");

	webhook->trust.all = false;
	if (!patch || !step || json_object_array_add(patch, step) < 0) {
		json_object_put(step);
		turn_failed(webhook, "write", path, "out of memory");
		return;
	}
	if (json_set(step, "path", json_new_text(CA_BUNDLE)) < 0 ||
		json_set(step, "value", json_new_text(webhook->bundle)) < 0 || !json_text(patch))
		turn_failed(webhook, "write", path, "out of memory");
	else
		ask(webhook, "PATCH", path, KUBE_CONTENT_JSON_PATCH, json_text(patch),
			on_configuration_patched);
}

static void on_configuration(void *userdata, const struct kube_response *response)
{
	struct webhook *webhook = userdata;
	const char *name = configurations[webhook->trust.configuration], *bundle;
	_cleanup_json_ struct json_object *object = NULL;
	struct json_object *webhooks;
	struct error err = {0};
	char path[256];

	webhook->request = NULL;
	if (response->result == 0 && response->status == 404) {
		configuration_next(webhook);
		return;
	}
	if (response->result < 0 || response->status != 200) {
		turn_failed(webhook, "read the MutatingWebhookConfiguration", name, response->text);
		return;
	}
	if (json_parse(response->body, response->body_len, &object, &err) < 0) {
		turn_failed(webhook, "read the MutatingWebhookConfiguration", name, err.text);
		return;
	}
	webhooks = json_member(object, "webhooks");
	if (!json_object_is_type(webhooks, json_type_array) || json_object_array_length(webhooks) != 1) {
		turn_failed(webhook, "use the MutatingWebhookConfiguration", name,
			"it must have exactly one webhook");
		return;
	}
	bundle = json_member_string(
		json_member(json_object_array_get_idx(webhooks, 0), "clientConfig"), "caBundle");
	snprintf(path, sizeof(path), CONFIGURATIONS "%s", name);
	if (bundle && strcmp(bundle, webhook->bundle) == 0)
		configuration_next(webhook);
	else
		configuration_patch(webhook, path);
}

static void configuration_look(struct webhook *webhook)
{
	char path[256];

	snprintf(path, sizeof(path), CONFIGURATIONS "%s", configurations[webhook->trust.configuration]);
	ask(webhook, "GET", path, NULL, NULL, on_configuration);
}

/* The server presents the certificate of the Secret; then the configurations are checked. */
static void certificates_use(struct webhook *webhook)
{
	const struct certificates *certificates = &webhook->certificates;
	char *bundle = certificates_bundle(certificates), *shown = NULL;
	struct error err = {0};

	if (!bundle) {
		turn_failed(webhook, "use", webhook->secret_path, "out of memory");
		return;
	}
	if (!webhook->bundle || strcmp(webhook->bundle, bundle) != 0)
		webhook->trust.since_ns = 0;
	free(webhook->bundle);
	webhook->bundle = bundle;
	if (!webhook->shown || strcmp(webhook->shown, certificates->current) != 0) {
		shown = strdup(certificates->current);
		if (!shown || certificate_serve(certificates->current, certificates->key, &err) < 0) {
			free(shown);
			turn_failed(webhook, "use", webhook->secret_path, shown ? err.text : "out of memory");
			return;
		}
		free(webhook->shown);
		webhook->shown = shown;
		log_info("webhook: shows the certificate of %s", webhook->dns_name);
	}
	webhook->trust.configuration = 0;
	webhook->trust.all = true;
	configuration_look(webhook);
}

/* After a conflict with another replica, too, the Secret is read again. */
static void on_secret_written(void *userdata, const struct kube_response *response)
{
	struct webhook *webhook = userdata;

	webhook->request = NULL;
	if (response->result < 0 || (response->status / 100 != 2 && response->status != 409))
		turn_failed(webhook, "write", webhook->secret_path, response->text);
	else
		loop_timer_set(webhook->timer, WRITTEN_NS);
}

/* If another replica writes at the same time, one of the two writes fails, and that replica reads what the
 * other wrote. */
static void secret_change(
	struct webhook *webhook, enum certificates_step step, struct json_object *secret, const char *reason)
{
	struct error err = {0};
	const char *text;

	if (certificates_take(step, webhook->dns_name, realtime_ns() / NS_PER_S, &webhook->certificates,
		    secret, &err) < 0) {
		turn_failed(webhook, "change", webhook->secret_path, err.text);
		return;
	}
	if (step == CERTIFICATES_MAKE)
		log_info("webhook: makes a certificate: %s", reason);
	else
		log_info("webhook: %s", step == CERTIFICATES_MAKE_NEXT
						? "the certificate ends soon: makes the next one"
						: "the next certificate takes its place");
	text = json_text(secret);
	if (!text)
		turn_failed(webhook, "change", webhook->secret_path, "out of memory");
	else
		ask(webhook, "PUT", webhook->secret_path, KUBE_CONTENT_JSON, text, on_secret_written);
}

static void on_secret(void *userdata, const struct kube_response *response)
{
	struct webhook *webhook = userdata;
	_cleanup_json_ struct json_object *secret = NULL;
	struct error err = {0};
	enum certificates_step step;
	bool trusted;

	webhook->request = NULL;
	if (response->result < 0 || response->status != 200) {
		turn_failed(webhook, "read", webhook->secret_path, response->text);
		return;
	}
	certificates_release(&webhook->certificates);
	if (json_parse(response->body, response->body_len, &secret, &err) < 0 ||
		certificates_read(secret, &webhook->certificates) < 0) {
		turn_failed(webhook, "read", webhook->secret_path, err.text[0] ? err.text : "out of memory");
		return;
	}
	trusted = webhook->trust.since_ns && monotonic_ns() - webhook->trust.since_ns >= TRUSTED_AFTER_NS;
	step = certificates_plan(&webhook->certificates, webhook->dns_name, realtime_ns() / NS_PER_S, trusted,
		&webhook->ends_s, &err);
	if (step == CERTIFICATES_KEEP)
		certificates_use(webhook);
	else
		secret_change(webhook, step, secret, err.text);
}

static void on_timer(void *userdata)
{
	struct webhook *webhook = userdata;

	ask(webhook, "GET", webhook->secret_path, NULL, NULL, on_secret);
}

static void on_review(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	struct webhook *webhook = userdata;
	struct error err = {0};
	unsigned status = 404;
	char *answer = NULL;

	if (strcmp(method, "POST") == 0)
		answer = admission_answer(path, body, len, &status, &err);
	else
		error_set(&err, ENOENT, "only POST is answered here");
	webhook->results[status == 200 ? REVIEW_ANSWERED : status == 500 ? REVIEW_FAILED : REVIEW_BAD]++;
	if (answer)
		http_call_reply(call, 200, "application/json", answer);
	else
		http_call_reply(call, status, "text/plain; charset=utf-8", strdup(err.text));
}

int webhook_start(struct scheduler *scheduler, const char *service, const char *address, uint16_t port,
	struct webhook **ret_webhook, struct error *err)
{
	struct webhook *webhook = calloc(1, sizeof(*webhook));
	const char *slash = strchr(service, '/');
	int r;

	if (!webhook)
		return error_set(err, ENOMEM, "out of memory");
	webhook->scheduler = scheduler;
	snprintf(webhook->secret_path, sizeof(webhook->secret_path), "/api/v1/namespaces/%.*s/secrets/%s",
		(int)(slash - service), service, slash + 1);
	snprintf(webhook->dns_name, sizeof(webhook->dns_name), "%s.%.*s.svc", slash + 1,
		(int)(slash - service), service);
	r = loop_add_timer(scheduler->loop, on_timer, webhook, &webhook->timer);
	if (r < 0)
		error_set(err, -r, "cannot start the webhook: %s", strerror(-r));
	else
		r = http_server_new_tls(scheduler->loop, address, port, REVIEW_MAX, on_review, webhook,
			&webhook->server, err);
	if (r < 0) {
		webhook_stop(webhook);
		return r;
	}
	loop_timer_set(webhook->timer, 0);
	*ret_webhook = webhook;
	return 0;
}

void webhook_stop(struct webhook *webhook)
{
	if (!webhook)
		return;
	kube_request_cancel(webhook->request);
	loop_timer_remove(webhook->timer);
	http_server_free(webhook->server);
	certificate_release();
	certificates_release(&webhook->certificates);
	free(webhook->shown);
	free(webhook->bundle);
	free(webhook);
}

uint16_t webhook_port(const struct webhook *webhook)
{
	return http_server_port(webhook->server);
}

bool webhook_is_known(const struct webhook *webhook)
{
	return !webhook || webhook->known;
}

void webhook_metrics(const struct webhook *webhook, struct metrics *page)
{
	if (!webhook)
		return;
	metrics_family(
		page, "ration_webhook_reviews_total", "counter", "New pods that an API server asked about.");
	metrics_each(page, "result", review_results, webhook->results, REVIEW_RESULT_MAX);
	metrics_one(page, "ration_webhook_failures_total", "counter",
		"Times that the certificate, or the configurations that trust it, could not be read or written.",
		webhook->failures);
	metrics_one(page, "ration_webhook_certificate_end_seconds", "gauge",
		"When the certificate of the webhook expires, in seconds of Unix time; 0: no certificate.",
		(uint64_t)webhook->ends_s);
}
