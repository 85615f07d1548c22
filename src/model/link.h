/* link.h - how two GPUs of one node are connected. */
#pragma once

#include <stdint.h>

/* The best path between two GPUs, the worst first; nvidia-smi topo -m has the same names. */
enum link_kind {
	LINK_UNKNOWN, /* no program has reported it: counts as LINK_SYS */
	LINK_SYS,     /* from one NUMA node to another */
	LINK_NODE,    /* several host bridges of a NUMA node */
	LINK_PHB,     /* one host bridge */
	LINK_PXB,     /* several PCIe switches */
	LINK_PIX,     /* one PCIe switch, or one board */
	LINK_NVLINK,
	LINK_KIND_MAX,
};

struct link {
	uint8_t kind;  /* enum link_kind */
	uint8_t lanes; /* NVLinks between the two, directly or through NVSwitches; 0 for other kinds */
};

#define LINK_LANES_MAX 99
#define LINK_TEXT_SIZE 8
#define NVLINK_GBPS 25 /* of one NVLink 2, 3 or 4 in one direction (data sheets of V100, A100, H100) */

/* link_text() - "NV2", "PIX" ..., "?" if the link is unknown; in buf. link_parse() - the reverse; -EINVAL. */
const char *link_text(struct link link, char buf[LINK_TEXT_SIZE]);
int link_parse(const char *text, struct link *ret_link);

/* link_gbps() - the bandwidth for the score. NVLinks count with their nominal bandwidth, nvlink_gbps each.
 * PCIe paths count with weights that keep their order and are below any NVLink. */
uint32_t link_gbps(struct link link, uint32_t nvlink_gbps);
