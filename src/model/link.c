#include "model/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

static const char *const kind_texts[LINK_KIND_MAX] = {
	[LINK_UNKNOWN] = "?",
	[LINK_SYS] = "SYS",
	[LINK_NODE] = "NODE",
	[LINK_PHB] = "PHB",
	[LINK_PXB] = "PXB",
	[LINK_PIX] = "PIX",
	[LINK_NVLINK] = "NV",
};

/* These are weights, not promised bandwidths: PCIe 3 with 16 lanes, less for each bridge, half if the path
 * crosses processors. */
static const uint16_t kind_gbps[LINK_KIND_MAX] = {
	[LINK_UNKNOWN] = 6,
	[LINK_SYS] = 6,
	[LINK_NODE] = 9,
	[LINK_PHB] = 10,
	[LINK_PXB] = 11,
	[LINK_PIX] = 12,
};

const char *link_text(struct link link, char buf[LINK_TEXT_SIZE])
{
	if (link.kind == LINK_NVLINK)
		snprintf(buf, LINK_TEXT_SIZE, "NV%u", link.lanes);
	else
		snprintf(buf, LINK_TEXT_SIZE, "%s", kind_texts[link.kind < LINK_KIND_MAX ? link.kind : 0]);
	return buf;
}

int link_parse(const char *text, struct link *ret_link)
{
	uint32_t lanes;

	for (uint8_t kind = 0; kind < LINK_NVLINK; kind++)
		if (strcmp(text, kind_texts[kind]) == 0) {
			*ret_link = (struct link){.kind = kind};
			return 0;
		}
	if (strncmp(text, "NV", 2) != 0 || parse_u32(text + 2, LINK_LANES_MAX, &lanes) < 0 || !lanes)
		return -EINVAL;
	*ret_link = (struct link){.kind = LINK_NVLINK, .lanes = (uint8_t)lanes};
	return 0;
}

uint32_t link_gbps(struct link link, uint32_t nvlink_gbps)
{
	if (link.kind == LINK_NVLINK)
		return link.lanes * nvlink_gbps;
	return kind_gbps[link.kind < LINK_KIND_MAX ? link.kind : 0];
}
