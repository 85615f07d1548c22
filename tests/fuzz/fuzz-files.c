/* Files that others write. First byte: k kubeconfig, c the kubelet's checkpoint, d a name in the CDI
 * directory, r the runtime's configuration (CRI Status), i an image's (ImageStatus), p what an agent before
 * us remembered of a pod, s of the node, l of a claim. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "agent/container/cdi.h"
#include "agent/container/images.h"
#include "agent/container/runtime.h"
#include "agent/kubelet/checkpoint.h"
#include "node/served.h"
#include "agent/node/state.h"
#include "agent/container/records.h"
#include "agent/dra/record.h"
#include "base/error.h"
#include "base/fs.h"
#include "kube/config.h"
#include "kube/names.h"
#include "model/held.h"
#include "node/claims.h"
#include "node/registry.h"

const unsigned int fuzz_rounds = 6000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "\n", "  ", "- ", "&a ", "*a",
	"<<: ", "!!binary ", "|\n",
	"clusters:", "users:", "contexts:", "current-context:", "server: https://h:1", "token: t",
	"exec:", "data: AAAA", "\"PodDeviceEntries\":", "\"DeviceIDs\":{\"-1\":[\"0-0\"]}",
	"\"ResourceName\":\"aliyun.com/gpu-mem\"", "ration-", ".json", "/", "..", "\"uid\":\"u1\"",
	"\"cards\":", "\"mib\":", "\"mode\":\"share\"", "\"cdiSpecDirs\":[\"/var/run/cdi\"]",
	"\"enableCDI\":true", "\"devices\":[{\"request\":\"gpu\"", "\"users\":[", "\"mib\":3072",
	"\"released\":true", NULL};

#define CLAIM_UID "11111111-0000-4000-8000-000000000001"

static char dir[64];

static void put(const char *path, const char *text, size_t len)
{
	FILE *file = fopen(path, "we");

	MUST(file && fwrite(text, 1, len, file) == len);
	fclose(file);
}

static void kubeconfig(const char *text, size_t len)
{
	_cleanup_kube_config_ struct kube_config config;
	int fd = memfd_create("kubeconfig", MFD_CLOEXEC);
	struct error err = {""};
	char path[64];

	kube_config_init(&config);
	MUST(fd >= 0 && write(fd, text, len) == (ssize_t)len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (kube_config_load(path, NULL, &config, &err) < 0)
		MUST(err.text[0]);
	else
		MUST(config.server && config.server[0] && config.namespace_);
	close(fd);
}

static void checkpoint(const char *text, size_t len)
{
	_cleanup_served_ struct served served;
	struct error err = {""};

	served_init(&served);
	if (checkpoint_parse(text, len, RESOURCE_GPU_MEM, &served, &err) < 0)
		MUST(err.text[0]);
}

static void cdi_name(const char *name)
{
	char uid[256], path[512], expected[512];

	if (strchr(name, '/') || !cdi_uid(name, uid, sizeof(uid)))
		return;
	MUST(cdi_path("/d", uid, path, sizeof(path)) == 0);
	snprintf(expected, sizeof(expected), "/d/%s", name);
	MUST(strcmp(path, expected) == 0);
}

static void record(const char *text, size_t len)
{
	_cleanup_held_ struct held held;
	char folder[128], path[160];

	held_init(&held);
	snprintf(folder, sizeof(folder), "%s/pods", dir);
	snprintf(path, sizeof(path), "%s/u1.json", folder);
	MUST(fs_mkdir_parents(folder, 0755) == 0);
	put(path, text, len);
	records_read(dir, &held);
	for (size_t i = 0; i < held.n_pods; i++)
		MUST(*held.pods[i].uid && held.pods[i].n_gpus);
	records_remove(dir, "u1");
	MUST(access(path, F_OK) < 0);
	rmdir(folder);
	rmdir(dir);
}

static void state(const char *text, size_t len)
{
	struct inventory inventory, inventory_again;
	struct state state, again;
	char path[128];

	snprintf(path, sizeof(path), "%s/agent-state.json", dir);
	MUST(fs_mkdir_parents(dir, 0755) == 0);
	put(path, text, len);
	state_load(dir, 1024, &inventory, &state);
	MUST(inventory.n_gpus <= NODE_GPUS_MAX && inventory.unit_mib > 0);
	MUST(state_save(dir, &inventory, &state, NULL) == 0);
	state_load(dir, 1024, &inventory_again, &again);
	MUST(again.mode == state.mode && inventory_again.unit_mib == inventory.unit_mib &&
		inventory_again.n_gpus == inventory.n_gpus &&
		inventory_units(&inventory_again) == inventory_units(&inventory));
	unlink(path);
	rmdir(dir);
}

static void check_claim(const struct node_claim *claim)
{
	const struct pod_facts *facts = &claim->stand_in.facts;
	uint64_t mib = 0;

	MUST(claim->saved && !claim->confirmed && strcmp(claim->uid, CLAIM_UID) == 0);
	MUST(claim->n_devices <= CLAIM_RESULTS_MAX && claim->n_users <= CLAIM_USERS_MAX);
	MUST(facts->has_placement == (claim->n_devices > 0));
	MUST(facts->placement.n_containers <= 1);
	for (size_t i = 0; i < claim->n_devices; i++)
		mib += claim->devices[i].mib;
	MUST(facts->request.units == mib);
	for (size_t i = 0; i < claim->n_devices; i++)
		MUST(claim->devices[i].mib > 0 && claim->devices[i].core <= CORE_PER_GPU &&
			claim->devices[i].uuid[0]);
}

/* What can be read is written and read again the same. */
static void claim_record(const char *text, size_t len)
{
	struct node_registry node, again;
	struct node_claim *claim, *copy;
	char folder[128], path[200];

	snprintf(folder, sizeof(folder), "%s/claims", dir);
	snprintf(path, sizeof(path), "%s/" CLAIM_UID ".json", folder);
	MUST(fs_mkdir_parents(folder, 0755) == 0);
	put(path, text, len);
	node_registry_init(&node, "n1");
	node_registry_init(&again, "n1");
	records_load(dir, &node);
	claim = node_claims_by_uid(&node, CLAIM_UID);
	MUST(claim && node.claims.count == 1);
	check_claim(claim);
	if (claim->n_devices) {
		MUST(record_write(dir, claim, NULL) == 0);
		records_load(dir, &again);
		copy = node_claims_by_uid(&again, CLAIM_UID);
		MUST(copy && node_claim_same(copy, claim) && copy->n_users == claim->n_users);
		MUST(strcmp(copy->name, claim->name) == 0 && copy->unlimited == claim->unlimited);
		MUST((copy->released_ns != 0) == (claim->released_ns != 0));
	}
	record_remove(dir, CLAIM_UID);
	MUST(access(path, F_OK) < 0);
	node_registry_release(&node);
	node_registry_release(&again);
	rmdir(folder);
	rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	snprintf(dir, sizeof(dir), "%s/ration-fuzz-files-%d", fuzz_folder(), (int)getpid());
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	if (data[0] == 'k')
		kubeconfig(text, size - 1);
	else if (data[0] == 'c')
		checkpoint(text, size - 1);
	else if (data[0] == 'd')
		cdi_name(text);
	else if (data[0] == 'p')
		record(text, size - 1);
	else if (data[0] == 'l')
		claim_record(text, size - 1);
	else if (data[0] == 's')
		state(text, size - 1);
	else if (data[0] == 'r')
		runtime_config_does_cdi(text, size - 1, "/var/run/cdi");
	else if (data[0] == 'i')
		free(images_read(text, size - 1));
	free(text);
	return 0;
}
