/* certificate.h - self-signed certificates for our own servers, made and read by GnuTLS.
 *
 * Such a certificate is its own authority: a client that has it as its only root trusts exactly this server.
 */
#pragma once

#include <stdint.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

struct error;

/* certificate_make() - makes a certificate for one DNS name, and its key (ECDSA, P-256), as PEM. It is valid
 * until ends_s, from an hour before now_s, because clocks of clients may be behind. Both are seconds of Unix
 * time. The caller frees both texts. -EIO with GnuTLS' reason. */
int certificate_make(const char *dns_name, int64_t now_s, int64_t ends_s, char **ret_certificate,
	char **ret_key, struct error *err);

/* certificate_check() - checks that the PEM texts belong together and are for dns_name. Returns the period of
 * validity. -EINVAL with a sentence. NULL texts are accepted, and are invalid. */
int certificate_check(const char *certificate, const char *key, const char *dns_name, int64_t *ret_begins_s,
	int64_t *ret_ends_s, struct error *err);

/* certificate_serve() - from now on the TLS servers of this process show this certificate in new handshakes.
 * Handshakes under way keep the previous one. -EINVAL: it cannot be read, and the previous one stays. */
int certificate_serve(const char *certificate, const char *key, struct error *err);

/* certificate_for_handshake() - GnuTLS' callback (gnutls_certificate_set_retrieve_function2()) that shows the
 * certificate. A handshake before the first certificate_serve() fails. GnuTLS passes no user data to it, so
 * there is one certificate per process. Runs on the thread that calls certificate_serve(). */
int certificate_for_handshake(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
	const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **ret_certificate,
	unsigned int *ret_length, gnutls_privkey_t *ret_key);

/* certificate_release() - called at the end of the process, after its servers. */
void certificate_release(void);
