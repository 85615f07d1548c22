/* config.h - where the API server is, and the credentials for it: from the in-cluster service account, or
 * from a kubeconfig. */
#pragma once

#include <stdbool.h>

struct error;

struct kube_config {
	char *server;  /* https://host:port, no trailing slash */
	char *ca_file; /* or ... */
	char *ca_data; /* ... PEM; NULL for both: the roots of the system */
	char *client_cert_file, *client_cert_data;
	char *client_key_file, *client_key_data;
	char *token_file; /* read again when it changes: bound service account tokens are rotated */
	char *token;
	char *tls_server_name;
	char *namespace_; /* "default" if not set */
	bool insecure;	  /* only when the kubeconfig says insecure-skip-tls-verify */
};

void kube_config_init(struct kube_config *config);
void kube_config_release(struct kube_config *config);
#define _cleanup_kube_config_ _cleanup_(kube_config_release)

/* kube_config_load() - reads `path` if it is not NULL; else the first file in $KUBECONFIG; else the service
 * account of the pod in which this process runs; else ~/.kube/config. context NULL: the current one. Settings
 * that are not supported (exec and auth-provider credentials, http proxies) are refused with a sentence that
 * names the setting and the alternative. Files over 1 MiB are refused. A kubeconfig may come from a pipe
 * (/dev/stdin), whose writer has 10 s. */
int kube_config_load(
	const char *path, const char *context, struct kube_config *ret_config, struct error *err);
