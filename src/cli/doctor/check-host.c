/* Checks of a node: its container runtime, and NVIDIA's runtime. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"

#define CONTAINERD "containerd"
#define CONFIG "/etc/containerd/config.toml"
#define NVIDIA_CONFIG "/etc/nvidia-container-runtime/config.toml"
#define ENVVAR "accept-nvidia-visible-devices-envvar-when-unprivileged"

static bool is_text(const char *value, const char *text)
{
	size_t len = strlen(text);

	return value && strlen(value) == len + 2 && strchr("\"'", value[0]) &&
	       strncmp(value + 1, text, len) == 0;
}

void check_containerd(struct machine *machine)
{
	if (*machine->other_runtime) {
		if (machine_has_crio(machine))
			report_find(machine->report, SEVERITY_NOTE, machine->other_runtime, "",
				"the kubelet's container runtime is CRI-O, whose configuration is not examined; ration was tried with CRI-O 1.34");
		else
			report_find(machine->report, SEVERITY_WARNING, machine->other_runtime, "",
				"the kubelet's container runtime is %s; ration was tried with containerd and CRI-O only",
				machine_runtime_name(machine));
		return;
	}
	if (!machine->version[0]) {
		report_unknown(machine->report,
			machine->problem[0] ? machine->problem : "`containerd --version` says nothing");
		return;
	}
	if (machine->major < 1 || (machine->major == 1 && machine->minor < 7))
		report_find(machine->report, SEVERITY_ERROR, CONTAINERD, "",
			"version %s knows no CDI: upgrade to 1.7 or later, better 2.0", machine->version);
}

void check_cdi(struct machine *machine)
{
	_cleanup_free_ char *enabled = NULL;

	if (!machine->containerd) {
		report_unknown(machine->report, machine->problem);
		return;
	}
	if (machine_does_cdi(machine))
		return;
	enabled = machine_cri(machine, "", "enable_cdi");
	if (enabled ? strcmp(enabled, "true") == 0 : machine->major >= 2)
		report_find(machine->report, SEVERITY_ERROR, CONFIG,
			"put '/var/run/cdi' into cdi_spec_dirs there, then: systemctl restart containerd",
			"containerd does not read /var/run/cdi, where the agent says what containers get");
	else
		report_find(machine->report, SEVERITY_ERROR, CONFIG,
			"put enable_cdi = true under [plugins.\"io.containerd.grpc.v1.cri\"] there, then: systemctl restart containerd",
			"containerd does not apply CDI files: nodes with isolation take no pods, and on share nodes NVIDIA's runtime must bring the driver");
}

/* NVIDIA's runtime gives the GPUs that a variable of the container or of its image names, to whoever it
 * starts. */
void check_nvidia_runtime(struct machine *machine)
{
	_cleanup_free_ char *config = machine_read(machine, NVIDIA_CONFIG), *accept = NULL,
			    *by_default = NULL;
	bool is_default;

	if (!machine->containerd) {
		report_unknown(machine->report, machine->problem);
		return;
	}
	by_default = machine_cri(machine, ".containerd", "default_runtime_name");
	is_default = is_text(by_default, "nvidia");
	if (!is_default && !strstr(machine->containerd, "nvidia-container-runtime"))
		return;
	/* true is what it does without the line (nvidia-container-toolkit 1.17, config.toml). */
	accept = config ? toml_value(config, "", ENVVAR) : NULL;
	if (!accept || strcmp(accept, "false") != 0)
		report_find(machine->report, is_default ? SEVERITY_ERROR : SEVERITY_WARNING, NVIDIA_CONFIG,
			"nvidia-ctk config --in-place --set " ENVVAR "=false",
			"%s gets each card that its variable NVIDIA_VISIBLE_DEVICES names, all of it: " ENVVAR
			" is not false",
			is_default ? "every container (nvidia is the default runtime)"
				   : "a container whose pod names NVIDIA's runtimeClassName");
	else if (is_default)
		report_find(machine->report, SEVERITY_NOTE, CONFIG, "",
			"nvidia is the default runtime; nothing of ration needs it where CDI is on");
}
