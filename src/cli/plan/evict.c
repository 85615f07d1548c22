#include "cli/plan/evict.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/kubectl.h"
#include "kube/eviction-object.h"
#include "kube/json.h"

#define WORDS_MAX 240
#define ANSWER_MAX (1u << 20)

/* words: of the API server; the first line counts. */
static int refused(const char *namespace_, const char *name, const char *words, struct error *err)
{
	size_t len = strcspn(words, "\n");

	if (strstr(words, "cannot create resource \"pods/eviction\""))
		return error_set(err, EACCES,
			"you may not evict pod %s in namespace %s: ask for the verb create on pods/eviction there",
			name, namespace_);
	if (len && words[len - 1] == '.')
		len--;
	return error_set(err, EBUSY, "the API server does not evict pod %s/%s: %.*s", namespace_, name,
		len < WORDS_MAX ? (int)len : WORDS_MAX, words);
}

/* An answer of the API server does, but for those after which it may go on with the request. */
static bool says_that_nothing_happened(const char *complaint)
{
	return strstr(complaint, "Error from server (") && !strstr(complaint, "Timeout)") &&
	       !strstr(complaint, "(InternalError)") && !strstr(complaint, "(Unknown)");
}

int plan_evict(
	const struct kubectl *kubectl, struct json_object *pod, enum evicted *ret_evicted, struct error *err)
{
	struct json_object *metadata = json_member(pod, "metadata");
	const char *namespace_ = text_of(metadata, "namespace"), *name = text_of(metadata, "name");
	_cleanup_json_ struct json_object *answer = NULL, *object = eviction_object(
								  namespace_, name, text_of(metadata, "uid"));
	_cleanup_strbuf_ struct strbuf out, complaints;
	struct error reason = {""};
	char path[640];
	int r;

	*ret_evicted = EVICTED_NO;
	strbuf_init(&out, ANSWER_MAX);
	strbuf_init(&complaints, ANSWER_MAX);
	if (!object)
		return error_set(err, ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "--raw=/api/v1/namespaces/%s/pods/%s/eviction", namespace_, name);
	*ret_evicted = EVICTED_MAYBE;
	r = kubectl_send(kubectl, (const char *const[]){"create", path, "--filename=-", NULL},
		json_text(object), &out, &complaints, err);
	if (r < 0)
		return r;
	if (r == 0 && json_parse(strbuf_cstr(&out), out.len, &answer, &reason) == 0 &&
		eviction_is_refused(answer, &reason)) {
		*ret_evicted = EVICTED_NO;
		return refused(namespace_, name, reason.text, err);
	}
	if (r > 0) {
		if (says_that_nothing_happened(strbuf_cstr(&complaints)))
			*ret_evicted = EVICTED_NO;
		return refused(namespace_, name,
			complaints.len ? strbuf_cstr(&complaints) : "kubectl gave no reason", err);
	}
	*ret_evicted = EVICTED_YES;
	return 0;
}
