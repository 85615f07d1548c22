/* Checks of a node: its container runtime, and NVIDIA's runtime. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"

#define NVIDIA_CONFIG "/etc/nvidia-container-runtime/config.toml"
#define ENVVAR "accept-nvidia-visible-devices-envvar-when-unprivileged"

static bool is_before(const struct machine *machine, unsigned int major, unsigned int minor)
{
	return machine->major < major || (machine->major == major && machine->minor < minor);
}

void check_container_runtime(struct machine *machine)
{
	const char *name = machine_runtime_name(machine);

	if (machine->runtime == RUNTIME_OTHER) {
		report_find(machine->report, SEVERITY_WARNING, machine->socket, "",
			"the kubelet's container runtime is %s; ration was tried with containerd and CRI-O only",
			name);
		return;
	}
	if (!machine->version[0])
		report_unknown(machine->report, machine->problem[0] ? machine->problem
						: machine->runtime == RUNTIME_CRIO
							? "`crio --version` prints nothing"
							: "`containerd --version` prints nothing");
	else if (machine->runtime == RUNTIME_CONTAINERD && is_before(machine, 1, 7))
		report_find(machine->report, SEVERITY_ERROR, name, "",
			"version %s does not support CDI: upgrade to 1.7 or later, better 2.0",
			machine->version);
	else if (machine->runtime == RUNTIME_CRIO && is_before(machine, 1, 34))
		report_find(machine->report, SEVERITY_WARNING, name, "",
			"the oldest CRI-O that ration was tried with is 1.34, and this is %s",
			machine->version);
}

void check_cdi(struct machine *machine)
{
	bool crio = machine->runtime == RUNTIME_CRIO;

	if (!machine->config) {
		report_unknown(machine->report, machine->problem);
		return;
	}
	if (machine_does_cdi(machine))
		return;
	if (machine_switches_cdi_off(machine))
		report_find(machine->report, SEVERITY_ERROR, machine_config_file(machine),
			"put enable_cdi = true under [plugins.\"io.containerd.grpc.v1.cri\"] there, then: systemctl restart containerd",
			"containerd does not apply CDI files: nodes with isolation take no pods, and on share nodes NVIDIA's runtime must add the driver");
	else
		report_find(machine->report, SEVERITY_ERROR, machine_config_file(machine),
			crio ? "put '/var/run/cdi' into cdi_spec_dirs under [crio.runtime] of a file there, then: systemctl restart crio"
			     : "put '/var/run/cdi' into cdi_spec_dirs there, then: systemctl restart containerd",
			"%s does not read /var/run/cdi, where the agent writes the CDI files of containers",
			machine_runtime_name(machine));
}

/* NVIDIA's runtime gives each container that it starts the GPUs that a variable of the container or of its
 * image names. */
void check_nvidia_runtime(struct machine *machine)
{
	_cleanup_free_ char *config = machine_read(machine, NVIDIA_CONFIG), *accept = NULL,
			    *by_default = NULL;
	bool is_default;

	if (!machine->config) {
		report_unknown(machine->report, machine->problem);
		return;
	}
	by_default = machine_default_runtime(machine);
	is_default = by_default && strcmp(by_default, "nvidia") == 0;
	if (!is_default && !strstr(machine->config, "nvidia-container-runtime"))
		return;
	/* Without the line the value is true (nvidia-container-toolkit 1.17, config.toml). */
	accept = config ? toml_value(config, "", ENVVAR) : NULL;
	if (!accept || strcmp(accept, "false") != 0)
		report_find(machine->report, is_default ? SEVERITY_ERROR : SEVERITY_WARNING, NVIDIA_CONFIG,
			"nvidia-ctk config --in-place --set " ENVVAR "=false",
			"%s gets each GPU that its variable NVIDIA_VISIBLE_DEVICES names, as a whole: " ENVVAR
			" is not false",
			is_default ? "every container (nvidia is the default runtime)"
				   : "a container whose pod names NVIDIA's runtimeClassName");
	else if (is_default)
		report_find(machine->report, SEVERITY_NOTE, machine_config_file(machine), "",
			"nvidia is the default runtime; nothing of ration needs it where CDI is on");
}
