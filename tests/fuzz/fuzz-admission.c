/* What an API server, or somebody who reaches the webhook's port, sends for review; and what is in the Secret
 * of the certificate. Input: a path and a body, each ends with a NUL. A path "secret" makes the body a
 * Secret.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "kube/json.h"
#include "scheduler/admission.h"
#include "scheduler/certificates.h"

const unsigned int fuzz_rounds = 20000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "\\u0000", "\xff", "/scheduler-name",
	"/unit/128", "\"request\":{\"uid\":\"u\"}", "\"limits\":{\"aliyun.com/gpu-mem\":1}",
	"\"annotations\":{}", "\"schedulerName\":\"\"", "\"data\":{\"tls.crt\":\"AAAA\"}", "\"tls.key\":\"\"",
	NULL};

static void check_answer(const char *answer)
{
	_cleanup_json_ struct json_object *review = NULL;
	struct json_object *response;

	MUST(json_parse(answer, strlen(answer), &review, NULL) == 0);
	response = json_member(review, "response");
	MUST(json_object_get_boolean(json_member(response, "allowed")));
	MUST(json_member_string(response, "uid"));
	MUST(!json_member(response, "patch") == !json_member(response, "patchType"));
}

static void try_secret(const char *text, size_t len)
{
	_cleanup_json_ struct json_object *secret = NULL;
	_cleanup_(certificates_release) struct certificates certificates = {0};
	struct error why = {0};
	int64_t ends_s;

	if (json_parse(text, len, &secret, NULL) < 0 || certificates_read(secret, &certificates) < 0)
		return;
	if (certificates_plan(&certificates, "a.b.svc", 1800000000, true, &ends_s, &why) == CERTIFICATES_MAKE)
		MUST(why.text[0] && ends_s == 0);
	free(certificates_bundle(&certificates));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = (const char *)data, *body;
	const uint8_t *end = memchr(data, '\0', size);
	struct error err = {0};
	unsigned status = 0;
	size_t len;
	char *answer;

	if (!end || data[size - 1] != '\0')
		return 0;
	body = (const char *)end + 1;
	if (body > (const char *)data + size - 1)
		return 0;
	len = size - 1 - (size_t)(body - path);
	if (strcmp(path, "secret") == 0) {
		try_secret(body, len);
		return 0;
	}
	answer = admission_answer(path, body, len, &status, &err);
	MUST(answer ? status == 200 : (status == 400 || status == 404) && err.text[0]);
	if (answer)
		check_answer(answer);
	free(answer);
	return 0;
}
