#include "scheduler/leads.h"

#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/json.h"

/* "<host>_<uuid>", cmd/kube-scheduler/app/server.go at 1.36.3. */
bool kube_scheduler_leads_here(const struct kube_response *response)
{
	_cleanup_json_ struct json_object *lease = NULL;
	char host[256] = "";
	struct error ignored;
	const char *holder;
	size_t len;

	if (response->result == 0 && response->status == 404)
		return true;
	if (response->result < 0 || response->status != 200 ||
		json_parse(response->body, response->body_len, &lease, &ignored) < 0)
		return false;
	if (gethostname(host, sizeof(host) - 1) < 0)
		return false;
	len = strlen(host);
	holder = json_member_string(json_member(lease, "spec"), "holderIdentity");
	return holder && len && strncmp(holder, host, len) == 0 && holder[len] == '_';
}
