/* certificates.h - which certificate the webhook presents, and which ones the API servers trust.
 *
 * Two replicas and several API servers share one Secret and need no leader: each replica reads the Secret,
 * takes the step that certificates_plan() names, and writes with the resourceVersion that it has read. A
 * renewal takes two steps, so that no API server meets a certificate that it does not trust: the next
 * certificate is made and trusted first, and shown later. The one before it stays trusted, for a replica that
 * still shows it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;
struct json_object;

#define CERTIFICATE_LIFETIME_S (365 * 86400LL)
/* A certificate whose remaining life is shorter than this gets a successor. */
#define CERTIFICATE_RENEW_S (120 * 86400LL)

/* PEM texts; NULL if the Secret lacks the entry. The key of `previous` is not kept. */
struct certificates {
	char *current, *key, *next, *next_key, *previous;
};
void certificates_release(struct certificates *certificates);

/* certificates_read() - reads the data of a Secret. An entry that is not valid counts as absent. */
int certificates_read(struct json_object *secret, struct certificates *ret_certificates);

enum certificates_step {
	CERTIFICATES_KEEP,
	CERTIFICATES_MAKE,	/* the current certificate is missing or invalid */
	CERTIFICATES_MAKE_NEXT, /* the current certificate ends soon */
	CERTIFICATES_PROMOTE,	/* the next one is trusted everywhere */
};

/* certificates_plan() - next_is_trusted: all API servers have had time to read a configuration that trusts
 * the next certificate. *ret_ends_s: when the certificate that is shown ends. For CERTIFICATES_MAKE it is 0,
 * and *why says what is wrong with the certificate. */
enum certificates_step certificates_plan(const struct certificates *certificates, const char *dns_name,
	int64_t now_s, bool next_is_trusted, int64_t *ret_ends_s, struct error *why);

/* certificates_take() - carries out the step in *certificates and in the Secret's data. A negative errno with
 * a sentence: the Secret must not be written. */
int certificates_take(enum certificates_step step, const char *dns_name, int64_t now_s,
	struct certificates *certificates, struct json_object *secret, struct error *err);

/* certificates_bundle() - the certificates that API servers must trust, in base64 as a caBundle. NULL when
 * out of memory. The caller frees. */
char *certificates_bundle(const struct certificates *certificates);
