#include "kube/failure.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/config.h"

struct failure {
	CURLcode code;
	int errnum;
	const char *what;
	const char *next; /* what to do about it, or NULL */
};

static const struct failure failures[] = {
	{CURLE_COULDNT_RESOLVE_HOST, EHOSTUNREACH, "its name cannot be resolved",
		"check the server's name and this machine's DNS"},
	{CURLE_COULDNT_CONNECT, ECONNREFUSED, "no connection", "is it running, and reachable from here?"},
	{CURLE_OPERATION_TIMEDOUT, ETIMEDOUT, "no answer in time", NULL},
	{CURLE_PEER_FAILED_VERIFICATION, EPROTO, "its certificate is not trusted",
		"check the certificate authority and the server's name in the kubeconfig"},
	{CURLE_SSL_CACERT_BADFILE, EPROTO, "our certificate authority cannot be read",
		"check certificate-authority in the kubeconfig"},
	{CURLE_SSL_CERTPROBLEM, EPROTO, "our client certificate or its key cannot be used",
		"check client-certificate and client-key in the kubeconfig"},
	{CURLE_SSL_CONNECT_ERROR, EPROTO, "TLS failed", "does the server speak TLS on this port?"},
	{CURLE_SSL_CIPHER, EPROTO, "TLS failed: no common cipher", NULL},
	{CURLE_GOT_NOTHING, ECONNRESET, "it closed the connection without an answer", NULL},
	{CURLE_RECV_ERROR, ECONNRESET, "the connection was cut", NULL},
	{CURLE_SEND_ERROR, ECONNRESET, "the connection was cut", NULL},
	{CURLE_PARTIAL_FILE, ECONNRESET, "the connection was cut in the middle of the answer", NULL},
	{CURLE_HTTP2, ECONNRESET, "the HTTP/2 connection failed", NULL},
	{CURLE_HTTP2_STREAM, ECONNRESET, "the HTTP/2 stream was cut", NULL},
	{CURLE_WEIRD_SERVER_REPLY, EPROTO, "it does not speak HTTP", "check the server's port"},
	{CURLE_UNSUPPORTED_PROTOCOL, EPROTO, "it does not speak HTTP", "check the server's port"},
	{CURLE_BAD_CONTENT_ENCODING, EPROTO, "its answer is garbled", NULL},
	{CURLE_URL_MALFORMAT, EINVAL, "the address is malformed", NULL},
	{CURLE_OUT_OF_MEMORY, ENOMEM, "out of memory", NULL},
};

int failure_describe(CURLcode code, const char *detail, const struct kube_config *config, struct error *err)
{
	struct failure failure = {code, EIO, curl_easy_strerror(code), NULL};

	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].code == code)
			failure = failures[i];
	if (!detail[0])
		detail = curl_easy_strerror(code);
	return error_set(err, failure.errnum, "API server %s: %s (%s)%s%s", config->server, failure.what,
		detail, failure.next ? "; " : "", failure.next ? failure.next : "");
}
