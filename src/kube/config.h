/* config.h - where the API server is and how we prove who we are: in-cluster service account, or a
 * kubeconfig. */
#pragma once

#include <stdbool.h>

struct error;

struct kube_config {
	char *server;  /* https://host:port, no trailing slash */
	char *ca_file; /* or ... */
	char *ca_data; /* ... PEM; NULL for both: the system's roots */
	char *client_cert_file, *client_cert_data;
	char *client_key_file, *client_key_data;
	char *token_file; /* read again when it changes: bound service account tokens are rotated */
	char *token;
	char *tls_server_name;
	char *namespace_; /* "default" if not said */
	bool insecure;	  /* only when the kubeconfig says insecure-skip-tls-verify */
};

void kube_config_init(struct kube_config *config);
void kube_config_release(struct kube_config *config);
#define _cleanup_kube_config_ _cleanup_(kube_config_release)

/* kube_config_load() - `path` if not NULL; else the first file of $KUBECONFIG; else the service account of
 * the pod we run in; else ~/.kube/config. context NULL: the current one. What we cannot do (exec and
 * auth-provider credentials, http proxies) is refused with a sentence that names it and the way out. Files
 * over 1 MiB are refused. A kubeconfig may come from a pipe (/dev/stdin), whose writer has 10 s. */
int kube_config_load(
	const char *path, const char *context, struct kube_config *ret_config, struct error *err);
