#include "scheduler/certificates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "kube/base64.h"
#include "kube/json.h"
#include "net/certificate.h"

#define BUNDLE_MAX (64 << 10)

/* A member of the Secret's data, and where its text is kept. */
struct entry {
	const char *key;
	char **text;
};
#define N_ENTRIES 5

static void entries_of(struct certificates *certificates, struct entry entries[N_ENTRIES])
{
	entries[0] = (struct entry){"tls.crt", &certificates->current};
	entries[1] = (struct entry){"tls.key", &certificates->key};
	entries[2] = (struct entry){"next.crt", &certificates->next};
	entries[3] = (struct entry){"next.key", &certificates->next_key};
	entries[4] = (struct entry){"previous.crt", &certificates->previous};
}

void certificates_release(struct certificates *certificates)
{
	struct entry entries[N_ENTRIES];

	entries_of(certificates, entries);
	for (size_t i = 0; i < N_ENTRIES; i++) {
		free(*entries[i].text);
		*entries[i].text = NULL;
	}
}

int certificates_read(struct json_object *secret, struct certificates *ret_certificates)
{
	struct json_object *data = json_member(secret, "data");
	struct certificates found = {0};
	struct entry entries[N_ENTRIES];

	entries_of(&found, entries);
	for (size_t i = 0; i < N_ENTRIES; i++) {
		const char *text = json_member_string(data, entries[i].key);

		if (text && base64_decode(text, entries[i].text) == -ENOMEM) {
			certificates_release(&found);
			return -ENOMEM;
		}
	}
	*ret_certificates = found;
	return 0;
}

enum certificates_step certificates_plan(const struct certificates *certificates, const char *dns_name,
	int64_t now_s, bool next_is_trusted, int64_t *ret_ends_s, struct error *why)
{
	int64_t begins_s, ends_s, next_begins_s, next_ends_s;

	*ret_ends_s = 0;
	if (certificate_check(certificates->current, certificates->key, dns_name, &begins_s, &ends_s, why) <
		0)
		return CERTIFICATES_MAKE;
	if (now_s < begins_s || now_s >= ends_s) {
		error_set(why, EINVAL, "the certificate %s",
			now_s < begins_s ? "is not valid yet" : "has expired");
		return CERTIFICATES_MAKE;
	}
	*ret_ends_s = ends_s;
	if (ends_s - now_s > CERTIFICATE_RENEW_S)
		return CERTIFICATES_KEEP;
	if (certificate_check(certificates->next, certificates->next_key, dns_name, &next_begins_s,
		    &next_ends_s, NULL) < 0 ||
		now_s < next_begins_s || next_ends_s - now_s <= CERTIFICATE_RENEW_S)
		return CERTIFICATES_MAKE_NEXT;
	return next_is_trusted ? CERTIFICATES_PROMOTE : CERTIFICATES_KEEP;
}

static char *base64_text(const char *text)
{
	gnutls_datum_t raw = {(unsigned char *)text, (unsigned)strlen(text)}, encoded;
	char *copy;

	if (gnutls_base64_encode2(&raw, &encoded) < 0)
		return NULL;
	copy = strndup((const char *)encoded.data, encoded.size);
	gnutls_free(encoded.data);
	return copy;
}

/* The texts become the Secret's data; members that do not belong to ration stay. */
static int certificates_write(struct certificates *certificates, struct json_object *secret)
{
	struct json_object *data = json_member(secret, "data");
	struct entry entries[N_ENTRIES];

	if (!json_object_is_type(data, json_type_object)) {
		data = json_object_new_object();
		if (json_set(secret, "data", data) < 0)
			return -ENOMEM;
	}
	entries_of(certificates, entries);
	for (size_t i = 0; i < N_ENTRIES; i++) {
		_cleanup_free_ char *text = NULL;

		if (!*entries[i].text) {
			json_object_object_del(data, entries[i].key);
			continue;
		}
		text = base64_text(*entries[i].text);
		if (!text || json_set(data, entries[i].key, json_object_new_string(text)) < 0)
			return -ENOMEM;
	}
	return 0;
}

int certificates_take(enum certificates_step step, const char *dns_name, int64_t now_s,
	struct certificates *certificates, struct json_object *secret, struct error *err)
{
	char *made = NULL, *made_key = NULL;
	int r;

	if (step == CERTIFICATES_MAKE || step == CERTIFICATES_MAKE_NEXT) {
		r = certificate_make(dns_name, now_s, now_s + CERTIFICATE_LIFETIME_S, &made, &made_key, err);
		if (r < 0)
			return r;
	}
	if (step == CERTIFICATES_MAKE) {
		certificates_release(certificates);
		certificates->current = made;
		certificates->key = made_key;
	} else if (step == CERTIFICATES_MAKE_NEXT) {
		free(certificates->next);
		free(certificates->next_key);
		certificates->next = made;
		certificates->next_key = made_key;
	} else if (step == CERTIFICATES_PROMOTE) {
		free(certificates->previous);
		free(certificates->key);
		certificates->previous = TAKE_PTR(certificates->current);
		certificates->current = TAKE_PTR(certificates->next);
		certificates->key = TAKE_PTR(certificates->next_key);
	}
	return certificates_write(certificates, secret) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

char *certificates_bundle(const struct certificates *certificates)
{
	const char *const trusted[] = {certificates->current, certificates->next, certificates->previous};
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, BUNDLE_MAX);
	for (size_t i = 0; i < 3; i++) {
		if (!trusted[i])
			continue;
		strbuf_adds(&text, trusted[i]);
		if (trusted[i][0] && trusted[i][strlen(trusted[i]) - 1] != '\n')
			strbuf_adds(&text, "\n");
	}
	return text.failed ? NULL : base64_text(strbuf_cstr(&text));
}
