/* credentials.h - who the server must be and who we are, as options of one curl transfer. */
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

/* credentials_apply() - TLS options of this transfer. 0, -ENOMEM, -ENOTSUP. */
int credentials_apply(struct credentials *credentials, CURL *easy);

/* credentials_bearer() - the header to send, or NULL; reads the token file again if it is another than before
 * (the kubelet replaces a bound token after 80 % of its life, by a new symlink). A file that cannot be read
 * leaves the last token in use, with a warning. */
const char *credentials_bearer(struct credentials *credentials);
