#include "net/certificate.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/cleanup.h"
#include "base/error.h"

#define CLOCK_DIFFERENCE_S 3600

struct identity {
	gnutls_pcert_st certificate;
	gnutls_privkey_t key; /* NULL while this slot holds no certificate */
};

/* The current certificate, and the previous one, which a handshake under way may still use. */
static struct identity identities[2];
static unsigned int shown;

static void crt_free(gnutls_x509_crt_t *crt)
{
	if (*crt)
		gnutls_x509_crt_deinit(*crt);
}

static void key_free(gnutls_x509_privkey_t *key)
{
	if (*key)
		gnutls_x509_privkey_deinit(*key);
}

/* Returns the text with its own terminating NUL, in memory for free(). */
static char *text_of(gnutls_datum_t *datum)
{
	char *text = strndup((const char *)datum->data, datum->size);

	gnutls_free(datum->data);
	return text;
}

static int fill(gnutls_x509_crt_t crt, const char *dns_name, int64_t now_s, int64_t ends_s)
{
	unsigned char serial[16];
	int r;

	if ((r = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial))) < 0)
		return r;
	serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, and no leading zero (RFC 5280, 4.1.2.2) */
	if ((r = gnutls_x509_crt_set_version(crt, 3)) < 0 ||
		(r = gnutls_x509_crt_set_serial(crt, serial, sizeof(serial))) < 0 ||
		(r = gnutls_x509_crt_set_activation_time(crt, now_s - CLOCK_DIFFERENCE_S)) < 0 ||
		(r = gnutls_x509_crt_set_expiration_time(crt, ends_s)) < 0 ||
		/* The common name is limited to 64 bytes (RFC 5280, ub-common-name), and nothing reads it. */
		(r = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, "ration", 6)) < 0 ||
		(r = gnutls_x509_crt_set_subject_alt_name(
			 crt, GNUTLS_SAN_DNSNAME, dns_name, strlen(dns_name), GNUTLS_FSAN_SET)) < 0 ||
		/* The certificate must not sign others, so a stolen key can only impersonate this one
		 * name. */
		(r = gnutls_x509_crt_set_basic_constraints(crt, 0, -1)) < 0 ||
		(r = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE)) < 0 ||
		(r = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0)) < 0)
		return r;
	return 0;
}

int certificate_make(const char *dns_name, int64_t now_s, int64_t ends_s, char **ret_certificate,
	char **ret_key, struct error *err)
{
	_cleanup_(crt_free) gnutls_x509_crt_t crt = NULL;
	_cleanup_(key_free) gnutls_x509_privkey_t key = NULL;
	gnutls_datum_t crt_pem = {0}, key_pem = {0};
	char *crt_text, *key_text;
	int r;

	if ((r = gnutls_x509_privkey_init(&key)) < 0 || (r = gnutls_x509_crt_init(&crt)) < 0 ||
		(r = gnutls_x509_privkey_generate(
			 key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0)) < 0 ||
		(r = fill(crt, dns_name, now_s, ends_s)) < 0 || (r = gnutls_x509_crt_set_key(crt, key)) < 0 ||
		(r = gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0)) < 0 ||
		(r = gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &crt_pem)) < 0 ||
		(r = gnutls_x509_privkey_export2_pkcs8(
			 key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &key_pem)) < 0) {
		gnutls_free(crt_pem.data);
		return error_set(
			err, EIO, "cannot make a certificate for %s: %s", dns_name, gnutls_strerror(r));
	}
	crt_text = text_of(&crt_pem);
	key_text = text_of(&key_pem);
	if (!crt_text || !key_text) {
		free(crt_text);
		free(key_text);
		return error_set(err, ENOMEM, "out of memory");
	}
	*ret_certificate = crt_text;
	*ret_key = key_text;
	return 0;
}

/* Compares the identifiers of the public keys, which are equal if the key belongs to the certificate. */
static bool belong_together(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
	unsigned char crt_id[64], key_id[64];
	size_t crt_size = sizeof(crt_id), key_size = sizeof(key_id);

	return gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, crt_id, &crt_size) == 0 &&
	       gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, key_id, &key_size) == 0 &&
	       crt_size == key_size && memcmp(crt_id, key_id, crt_size) == 0;
}

int certificate_check(const char *certificate, const char *key_text, const char *dns_name,
	int64_t *ret_begins_s, int64_t *ret_ends_s, struct error *err)
{
	_cleanup_(crt_free) gnutls_x509_crt_t crt = NULL;
	_cleanup_(key_free) gnutls_x509_privkey_t key = NULL;
	gnutls_datum_t crt_pem, key_pem;
	int64_t begins_s, ends_s;
	int r;

	if (!certificate || !key_text)
		return error_set(err, EINVAL, "no %s was given", certificate ? "key" : "certificate");
	crt_pem = (gnutls_datum_t){(unsigned char *)certificate, (unsigned)strlen(certificate)};
	key_pem = (gnutls_datum_t){(unsigned char *)key_text, (unsigned)strlen(key_text)};
	if ((r = gnutls_x509_crt_init(&crt)) < 0 || (r = gnutls_x509_privkey_init(&key)) < 0)
		return error_set(err, ENOMEM, "%s", gnutls_strerror(r));
	if ((r = gnutls_x509_crt_import(crt, &crt_pem, GNUTLS_X509_FMT_PEM)) < 0)
		return error_set(err, EINVAL, "the certificate is invalid: %s", gnutls_strerror(r));
	if ((r = gnutls_x509_privkey_import(key, &key_pem, GNUTLS_X509_FMT_PEM)) < 0)
		return error_set(err, EINVAL, "the key is invalid: %s", gnutls_strerror(r));
	if (!belong_together(crt, key))
		return error_set(err, EINVAL, "the key does not belong to the certificate");
	if (!gnutls_x509_crt_check_hostname(crt, dns_name))
		return error_set(err, EINVAL, "the certificate is not for %s", dns_name);
	begins_s = gnutls_x509_crt_get_activation_time(crt);
	ends_s = gnutls_x509_crt_get_expiration_time(crt);
	if (begins_s < 0 || ends_s < 0)
		return error_set(err, EINVAL, "the certificate has no period of validity");
	*ret_begins_s = begins_s;
	*ret_ends_s = ends_s;
	return 0;
}

static void identity_release(struct identity *identity)
{
	if (!identity->key)
		return;
	gnutls_pcert_deinit(&identity->certificate);
	gnutls_privkey_deinit(identity->key);
	*identity = (struct identity){0};
}

int certificate_serve(const char *certificate, const char *key, struct error *err)
{
	gnutls_datum_t crt_pem = {(unsigned char *)certificate, (unsigned)strlen(certificate)};
	gnutls_datum_t key_pem = {(unsigned char *)key, (unsigned)strlen(key)};
	struct identity fresh = {0};
	int r;

	r = gnutls_pcert_import_x509_raw(&fresh.certificate, &crt_pem, GNUTLS_X509_FMT_PEM, 0);
	if (r < 0)
		return error_set(err, EINVAL, "the certificate is invalid: %s", gnutls_strerror(r));
	r = gnutls_privkey_init(&fresh.key);
	if (r == 0)
		r = gnutls_privkey_import_x509_raw(fresh.key, &key_pem, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (r < 0) {
		gnutls_pcert_deinit(&fresh.certificate);
		if (fresh.key)
			gnutls_privkey_deinit(fresh.key);
		return error_set(err, EINVAL, "the key is invalid: %s", gnutls_strerror(r));
	}
	shown ^= 1;
	identity_release(&identities[shown]);
	identities[shown] = fresh;
	return 0;
}

int certificate_for_handshake(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
	const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **ret_certificate,
	unsigned int *ret_length, gnutls_privkey_t *ret_key)
{
	struct identity *identity = &identities[shown];

	if (!identity->key)
		return -1;
	*ret_certificate = &identity->certificate;
	*ret_length = 1;
	*ret_key = identity->key;
	return 0;
}

void certificate_release(void)
{
	identity_release(&identities[0]);
	identity_release(&identities[1]);
}
