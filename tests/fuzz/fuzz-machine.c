/* The files of a node that `ration doctor --node` reads: containerd's and CRI-O's configuration (TOML) and
 * version, the kubelet's files, mounts, names in directories. Input: pieces that end with a NUL; the first
 * byte of each names the file (files below), and = is a question to the reader of TOML: three lines for the
 * section, the key and the text. Nothing is executed. */
#include "fuzz.h"

#include <errno.h>
#include <stdarg.h>

#include "base/strbuf.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"

const unsigned int fuzz_rounds = 1500;
const char *const fuzz_words[] = {"[plugins.\"io.containerd.grpc.v1.cri\"]\n",
	"[plugins.'io.containerd.cri.v1.runtime']\n", ".containerd", ".containerd.runtimes.runc.options]\n",
	"enable_cdi = true\n", "enable_cdi = false\n", "cdi_spec_dirs = [\"/var/run/cdi\"]\n",
	"SystemdCgroup = true\n", "[crio.runtime]\n", "[crio.runtime.runtimes.runc]\n",
	"cgroup_manager = \"systemd\"\n", "default_runtime = \"runc\"\n",
	"runtime_path = \"/usr/libexec/crio/runc\"\n", "default_runtime_name = \"nvidia\"\n", "#", "\"", "'",
	"[", "]", "=", "[[", "\n", "v2.1.4", "1.7.0",
	"containerRuntimeEndpoint: unix:///run/crio/crio.sock\n", "cgroupDriver: systemd\n",
	"accept-nvidia-visible-devices-envvar-when-unprivileged = false\n", "libcuda.so.550.54.14",
	"libnvidia-ml.so.550.54", "NVRM version:", "550.54", "535.104.05", "noexec", NULL};

static const struct {
	char letter;
	const char *path;
} files[] = {
	{'c', "/etc/containerd/config.toml"},
	{'k', "/var/lib/kubelet/config.yaml"},
	{'i', "/var/lib/kubelet/instance-config.yaml"},
	{'e', "/var/lib/kubelet/kubeadm-flags.env"},
	{'K', "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"},
	{'n', "/etc/nvidia-container-runtime/config.toml"},
	{'d', "/proc/driver/nvidia/version"},
	{'m', "/proc/1/mountinfo"},
	{'p', "/var/lib/kubelet/cpu_manager_state"},
	{'s', "/run/containerd/containerd.sock"},
	{'o', "/run/crio/crio.sock"},
	{'g', "/sys/fs/cgroup/cgroup.controllers"},
	{'v', "containerd --version"},
	{'D', "containerd config dump"},
	{'V', "crio --version"},
	{'C', "crio status config"},
	{'l', "names in every directory"},
};
static const char *texts[ARRAY_SIZE(files)]; /* of this input */

static bool inside; /* else driver.c reads the corpus */

static const char *text_at(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (strcmp(files[i].path, path) == 0)
			return texts[i];
	return NULL;
}

/* By the linker in the place of the real ones (meson.build). */
int __wrap_fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len);
int __real_fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len);
char *__wrap_machine_read(const struct machine *machine, const char *path);
bool __wrap_machine_has(const struct machine *machine, const char *path);
bool __wrap_machine_each(
	struct machine *machine, const char *path, void (*take)(struct machine *machine, const char *name));
int __wrap_access(const char *path, int mode);
FILE *__wrap_popen(const char *command, const char *mode);
int __wrap_pclose(FILE *file);

int __wrap_fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len)
{
	const char *text = text_at(path);

	if (!inside)
		return __real_fs_read(path, max, ret_data, ret_len);
	if (!text)
		return -ENOENT;
	*ret_data = strdup(text);
	*ret_len = strlen(text);
	MUST(*ret_data);
	return 0;
}

char *__wrap_machine_read(const struct machine *machine, const char *path)
{
	const char *text = text_at(path);
	char *copy = text ? strdup(text) : NULL;

	MUST(copy || !text);
	errno = ENOENT;
	return copy;
}

/* What is no file of the list is there if there are names. */
bool __wrap_machine_has(const struct machine *machine, const char *path)
{
	return text_at(path) || text_at("names in every directory");
}

bool __wrap_machine_each(
	struct machine *machine, const char *path, void (*take)(struct machine *machine, const char *name))
{
	const char *names = text_at("names in every directory");
	_cleanup_free_ char *copy = names ? strdup(names) : NULL;
	char *rest = copy, *name;

	MUST(copy || !names);
	while ((name = strsep(&rest, "\n")))
		if (*name && strlen(name) < 256 && !strchr(name, '/'))
			take(machine, name);
	return names;
}

int __wrap_access(const char *path, int mode)
{
	return text_at(path) ? 0 : -1;
}

FILE *__wrap_popen(const char *command, const char *mode)
{
	_cleanup_free_ char *name = strdup(command);
	const char *text;

	MUST(name);
	name[strcspn(name, ">") - (strchr(name, '>') ? 2 : 0)] = '\0';
	/* The socket, which the input chooses, is in the command. */
	text = text_at(strstr(name, " crio status ") ? "crio status config" : name);
	return text && *text ? fmemopen((void *)text, strlen(text), "r") : NULL;
}

int __wrap_pclose(FILE *file)
{
	return fclose(file);
}

static void toml(char *text)
{
	char *section = strsep(&text, "\n"), *key = strsep(&text, "\n");
	_cleanup_free_ char *value = NULL;
	size_t len;

	if (!text || !*key || strpbrk(section, "\"' \t"))
		return;
	value = toml_value(text, section, key);
	len = value ? strlen(value) : 0;
	if (!value)
		return;
	/* A value is a part of one line, or a list. */
	MUST(strstr(text, key) && (!len || (value[len - 1] != ' ' && value[len - 1] != '\n')));
	MUST(*value == '[' || !strchr(value, '\n'));
}

static void examine(bool json)
{
	_cleanup_report_ struct report report;
	_cleanup_strbuf_ struct strbuf out;
	int status;

	report_init(&report);
	strbuf_init(&out, 1 << 20);
	machine_examine("/", "/", &report);
	MUST((json ? report_json(&report, &out) : report_text(&report, &out)) == 0);
	status = report_status(&report);
	MUST(!report.failed && (status == 0 || status == 1 || status == EXIT_UNKNOWN));
	/* Nothing that a terminal would obey. */
	for (size_t i = 0; !json && i < out.len; i++)
		MUST(out.data[i] == '\n' || (out.data[i] >= ' ' && out.data[i] != 0x7f));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	bool any = false;

	memset(texts, 0, sizeof(texts));
	for (size_t at = 0, len; at < size; at += len + 1) {
		len = strlen(text + at);
		for (size_t i = 0; i < ARRAY_SIZE(files); i++)
			if (text[at] == files[i].letter) {
				texts[i] = text + at + 1;
				any = true;
			}
		if (text[at] == '=')
			toml(text + at + 1);
	}
	inside = true;
	if (any)
		examine(size % 2);
	inside = false;
	free(text);
	return 0;
}
