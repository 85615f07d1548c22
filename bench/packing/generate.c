#include "packing/packing.h"

#include <stdio.h>

/* The shares of a production cluster with 1,213 GPU nodes: "Beware of Fragmentation" (Weng et al., USENIX ATC
 * 2023), table 1, and its public data, cluster-trace-gpu-v2023. Pods there ask for more combinations of CPU
 * and memory; here each kind has a few common ones. Nodes and pods are drawn with these weights. */
static const struct {
	struct packing_node node;
	const char *model;
	uint32_t weight;
} nodes[] = {
	{{.cpu_milli = 96000, .memory_mib = 393216, .gpus = 8}, "G2", 549},
	{{.cpu_milli = 104000, .memory_mib = 524288, .gpus = 2}, "T4", 387},
	{{.cpu_milli = 16000, .memory_mib = 122880, .gpus = 2}, "P100", 107},
	{{.cpu_milli = 128000, .memory_mib = 786432, .gpus = 8}, "G3", 39},
	{{.cpu_milli = 32000, .memory_mib = 131072, .gpus = 4}, "V100M16", 28},
	{{.cpu_milli = 64000, .memory_mib = 262144, .gpus = 2}, "P100", 22},
	{{.cpu_milli = 96000, .memory_mib = 786432, .gpus = 8}, "V100M32", 21},
};

static const struct {
	struct packing_pod pod;
	uint32_t weight;
} pods[] = {
	/* 13.3 % ask for CPU only */
	{{.cpu_milli = 12000, .memory_mib = 57344}, 53},
	{{.cpu_milli = 32000, .memory_mib = 49152}, 40},
	{{.cpu_milli = 8000, .memory_mib = 30720}, 40},
	/* 37.8 % for a part of a GPU */
	{{.cpu_milli = 3000, .memory_mib = 5120, .gpus = 1, .gpu_milli = 810}, 134},
	{{.cpu_milli = 11000, .memory_mib = 47104, .gpus = 1, .gpu_milli = 470}, 92},
	{{.cpu_milli = 8000, .memory_mib = 30720, .gpus = 1, .gpu_milli = 320}, 60},
	{{.cpu_milli = 4000, .memory_mib = 15360, .gpus = 1, .gpu_milli = 650}, 50},
	{{.cpu_milli = 4000, .memory_mib = 22528, .gpus = 1, .gpu_milli = 230}, 42},
	/* 48.0 % for one */
	{{.cpu_milli = 11000, .memory_mib = 49152, .gpus = 1, .gpu_milli = 1000}, 280},
	{{.cpu_milli = 3000, .memory_mib = 5120, .gpus = 1, .gpu_milli = 1000}, 90},
	{{.cpu_milli = 18000, .memory_mib = 64512, .gpus = 1, .gpu_milli = 1000}, 60},
	{{.cpu_milli = 12000, .memory_mib = 24576, .gpus = 1, .gpu_milli = 1000}, 50},
	/* 0.2 % for two, 0.2 % for four, 0.5 % for eight */
	{{.cpu_milli = 16000, .memory_mib = 66560, .gpus = 2, .gpu_milli = 1000}, 2},
	{{.cpu_milli = 32000, .memory_mib = 132096, .gpus = 4, .gpu_milli = 1000}, 2},
	{{.cpu_milli = 64000, .memory_mib = 263168, .gpus = 8, .gpu_milli = 1000}, 5},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static size_t draw_node(uint64_t *state)
{
	uint64_t all = 0, at;
	size_t i;

	for (i = 0; i < COUNT(nodes); i++)
		all += nodes[i].weight;
	at = packing_random(state) % all;
	for (i = 0; at >= nodes[i].weight; i++)
		at -= nodes[i].weight;
	return i;
}

static size_t draw_pod(uint64_t *state)
{
	uint64_t all = 0, at;
	size_t i;

	for (i = 0; i < COUNT(pods); i++)
		all += pods[i].weight;
	at = packing_random(state) % all;
	for (i = 0; at >= pods[i].weight; i++)
		at -= pods[i].weight;
	return i;
}

void packing_generate(struct packing_trace *trace, size_t n_nodes, uint64_t seed)
{
	uint64_t state = seed, asked = 0;

	*trace = (struct packing_trace){0};
	for (size_t n = 0; n < n_nodes; n++) {
		size_t i = draw_node(&state);
		struct packing_node node = nodes[i].node;

		snprintf(node.name, sizeof(node.name), "node-%05zu", n);
		node.model = packing_model(trace, nodes[i].model);
		trace->gpu_milli += (uint64_t)node.gpus * GPU_MILLI;
		packing_add_node(trace, &node);
	}
	while (asked < trace->gpu_milli) {
		size_t i = draw_pod(&state);

		asked += (uint64_t)pods[i].pod.gpus * pods[i].pod.gpu_milli;
		packing_add_pod(trace, pods[i].pod);
	}
	packing_finish(trace);
}
