/* certificate.h - self-signed certificates for servers of our own, made and read by GnuTLS.
 *
 * Such a certificate is its own authority: a client that has it as its only root trusts exactly this server.
 */
#pragma once

#include <stdint.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

struct error;

/* certificate_make() - a certificate for one DNS name and its key (ECDSA, P-256), as PEM. It is valid from an
 * hour before now_s, for clocks that are behind, until ends_s; both in seconds of Unix time. The caller frees
 * both texts. -EIO with GnuTLS' reason. */
int certificate_make(const char *dns_name, int64_t now_s, int64_t ends_s, char **ret_certificate,
	char **ret_key, struct error *err);

/* certificate_check() - the PEM texts belong together and are for dns_name. Returns when the certificate
 * begins and ends to be valid. -EINVAL with a sentence. Accepts NULL texts, which are invalid. */
int certificate_check(const char *certificate, const char *key, const char *dns_name, int64_t *ret_begins_s,
	int64_t *ret_ends_s, struct error *err);

/* certificate_serve() - TLS servers of this process show this certificate in handshakes that begin from now
 * on. Handshakes under way keep the one before it. -EINVAL: it cannot be read, and the one before it stays.
 */
int certificate_serve(const char *certificate, const char *key, struct error *err);

/* certificate_for_handshake() - GnuTLS' callback (gnutls_certificate_set_retrieve_function2()) that shows the
 * certificate; a handshake before the first certificate_serve() fails. GnuTLS hands it no pointer of ours, so
 * there is one certificate for a process. On the thread that calls certificate_serve(). */
int certificate_for_handshake(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
	const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **ret_certificate,
	unsigned int *ret_length, gnutls_privkey_t *ret_key);

/* certificate_release() - at the end of the process, after its servers. */
void certificate_release(void);
