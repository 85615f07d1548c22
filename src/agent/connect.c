#include "agent/connect.h"

#include "base/cleanup.h"
#include "kube/client.h"
#include "kube/config.h"

int connect_new(struct loop *loop, const char *kubeconfig, struct kube_client **ret_client, struct error *err)
{
	_cleanup_kube_config_ struct kube_config config;
	int r;

	kube_config_init(&config);
	r = kube_config_load(kubeconfig, NULL, &config, err);
	if (r < 0)
		return r;
	return kube_client_new(loop, &config, "ration-agent/" RATION_VERSION, ret_client, err);
}
