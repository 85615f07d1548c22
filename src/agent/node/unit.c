#include "agent/node/unit.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "kube/names.h"
#include "model/units.h"

void unit_told(struct agent *agent, const char *text)
{
	char sentence[300];

	if (!text) {
		agent->node.asked.unit_mib = agent->options.unit_mib;
		agent->refused_unit[0] = '\0';
		return;
	}
	if (unit_parse(text, &agent->node.asked.unit_mib) == 0) {
		agent->refused_unit[0] = '\0';
		return;
	}
	if (agent->refused_unit[0] &&
		strncmp(agent->refused_unit, text, sizeof(agent->refused_unit) - 1) == 0)
		return;
	snprintf(agent->refused_unit, sizeof(agent->refused_unit), "%s", text);
	snprintf(sentence, sizeof(sentence),
		"ConfigMap " NAMESPACE_SYSTEM "/" CONFIG_MAP_POLICY ", " CONFIG_MAP_UNIT_KEY
		": \"%.40s\" is no unit of GPU memory: it must be one of 1GiB, 512MiB, 256MiB, 128MiB; the one before stays",
		text);
	event_on_node(&agent->events, "GPUMemoryUnitRefused", sentence);
}
