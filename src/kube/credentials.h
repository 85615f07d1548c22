/* credentials.h - how to authenticate the server and this process, as options of one curl transfer. */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <curl/curl.h>

struct kube_config;

struct credentials {
	const struct kube_config *config; /* borrowed */
	char *bearer;			  /* "Authorization: Bearer ...", NULL without a token */
	dev_t token_dev;
	ino_t token_ino;
	struct timespec token_mtime; /* of the file that bearer was read from */
};

void credentials_init(struct credentials *credentials, const struct kube_config *config);
void credentials_release(struct credentials *credentials);

/* credentials_apply() - sets the TLS options of this transfer. 0, -ENOMEM, -ENOTSUP. */
int credentials_apply(struct credentials *credentials, CURL *easy);

/* credentials_bearer() - the header to send, or NULL. It reads the token file again if the file has changed
 * (the kubelet replaces a bound token after 80 % of its life, by a new symlink). If a file cannot be read,
 * the last token stays in use, with a warning. */
const char *credentials_bearer(struct credentials *credentials);
