/* Files that others write. First byte: k kubeconfig, c the kubelet's checkpoint, d a name in the CDI
 * directory, r the runtime's configuration (CRI Status). */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "agent/cdi.h"
#include "agent/checkpoint.h"
#include "agent/runtime.h"
#include "agent/served.h"
#include "base/error.h"
#include "kube/config.h"

const unsigned int fuzz_rounds = 6000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "\n", "  ", "- ", "&a ", "*a",
	"<<: ", "!!binary ", "|\n",
	"clusters:", "users:", "contexts:", "current-context:", "server: https://h:1", "token: t",
	"exec:", "data: AAAA", "\"PodDeviceEntries\":", "\"DeviceIDs\":{\"-1\":[\"0-0\"]}",
	"\"ResourceName\":\"aliyun.com/gpu-mem\"", "ration-", ".json", "/", "..",
	"\"cdiSpecDirs\":[\"/var/run/cdi\"]", "\"enableCDI\":true", NULL};

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
	if (checkpoint_parse(text, len, &served, &err) < 0)
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
	else if (data[0] == 'r')
		runtime_config_does_cdi(text, size - 1, "/var/run/cdi");
	free(text);
	return 0;
}
