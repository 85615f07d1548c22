/* How requests prove who sends them: client certificate, token, or neither. */
#include "kube/client-internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/log.h"
#include "kube/config.h"

#define TOKEN_MAX (64 * 1024)

void credentials_init(struct credentials *credentials, const struct kube_config *config)
{
	*credentials = (struct credentials){.config = config};
}

void credentials_release(struct credentials *credentials)
{
	if (credentials->bearer)
		explicit_bzero(credentials->bearer, strlen(credentials->bearer));
	free(credentials->bearer);
	credentials->bearer = NULL;
}

static int set_pem(
	CURL *easy, CURLoption blob_option, const char *data, CURLoption file_option, const char *file)
{
	CURLcode code = CURLE_OK;

	if (data) {
		struct curl_blob blob = {.data = (char *)data, .len = strlen(data), .flags = CURL_BLOB_COPY};

		code = curl_easy_setopt(easy, blob_option, &blob);
	} else if (file) {
		code = curl_easy_setopt(easy, file_option, file);
	}
	return code == CURLE_OK ? 0 : code == CURLE_OUT_OF_MEMORY ? -ENOMEM : -ENOTSUP;
}

int credentials_apply(struct credentials *credentials, CURL *easy)
{
	const struct kube_config *config = credentials->config;
	int r;

	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, config->insecure ? 0L : 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, config->insecure ? 0L : 2L);
	r = set_pem(easy, CURLOPT_CAINFO_BLOB, config->ca_data, CURLOPT_CAINFO, config->ca_file);
	if (r == 0 && (config->ca_data || config->ca_file))
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	if (r == 0)
		r = set_pem(easy, CURLOPT_SSLCERT_BLOB, config->client_cert_data, CURLOPT_SSLCERT,
			config->client_cert_file);
	if (r == 0)
		r = set_pem(easy, CURLOPT_SSLKEY_BLOB, config->client_key_data, CURLOPT_SSLKEY,
			config->client_key_file);
	return r;
}

static bool same_token(const struct credentials *credentials, const struct stat *st)
{
	return credentials->bearer && credentials->token_dev == st->st_dev &&
	       credentials->token_ino == st->st_ino &&
	       credentials->token_mtime.tv_sec == st->st_mtim.tv_sec &&
	       credentials->token_mtime.tv_nsec == st->st_mtim.tv_nsec;
}

/* A token must be one line of printable characters. Otherwise a file could add headers. */
static int set_bearer(struct credentials *credentials, const char *token)
{
	size_t len = strcspn(token, "\r\n");
	char *bearer;

	while (len && (token[len - 1] == ' ' || token[len - 1] == '\t'))
		len--;
	if (len == 0)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)token[i] <= ' ' || (unsigned char)token[i] >= 0x7f)
			return -EINVAL;
	if (asprintf(&bearer, "Authorization: Bearer %.*s", (int)len, token) < 0)
		return -ENOMEM;
	credentials_release(credentials);
	credentials->bearer = bearer;
	return 0;
}

static int read_token_file(struct credentials *credentials)
{
	_cleanup_free_ char *data = NULL;
	struct stat st;
	size_t len;
	int r;

	if (stat(credentials->config->token_file, &st) < 0)
		return -errno;
	if (same_token(credentials, &st))
		return 0;
	r = fs_read(credentials->config->token_file, TOKEN_MAX, &data, &len);
	if (r == 0)
		r = set_bearer(credentials, data);
	if (r < 0)
		return r;
	explicit_bzero(data, len);
	credentials->token_dev = st.st_dev;
	credentials->token_ino = st.st_ino;
	credentials->token_mtime = st.st_mtim;
	return 0;
}

const char *credentials_bearer(struct credentials *credentials)
{
	const struct kube_config *config = credentials->config;
	int r = 0;

	if (config->token_file)
		r = read_token_file(credentials);
	if (!credentials->bearer && config->token)
		r = set_bearer(credentials, config->token);
	if (r < 0)
		log_warning("cannot use the token %s: %s", config->token_file ? config->token_file : "",
			strerror(-r));
	return credentials->bearer;
}
