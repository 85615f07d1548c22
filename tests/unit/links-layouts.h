/* links-layouts.h - how the GPUs of published machines are connected, as nvidia-smi topo -m shows it. */
#pragma once

#include "core/placement/links.h"

/* DGX-1 with V100 (also p3.16xlarge): the hybrid cube mesh; six NVLinks for each GPU, at most two between a
 * pair. */
static const char *const layout_dgx1_v100[8][8] = {
	{"X", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"},
	{"NV1", "X", "NV2", "NV1", "SYS", "NV2", "SYS", "SYS"},
	{"NV1", "NV2", "X", "NV2", "SYS", "SYS", "NV1", "SYS"},
	{"NV2", "NV1", "NV2", "X", "SYS", "SYS", "SYS", "NV1"},
	{"NV2", "SYS", "SYS", "SYS", "X", "NV1", "NV1", "NV2"},
	{"SYS", "NV2", "SYS", "SYS", "NV1", "X", "NV2", "NV1"},
	{"SYS", "SYS", "NV1", "SYS", "NV1", "NV2", "X", "NV2"},
	{"SYS", "SYS", "SYS", "NV1", "NV2", "NV1", "NV2", "X"},
};

/* DGX A100: twelve NVLinks of each GPU to the NVSwitches, so twelve between any two. */
static const char *const layout_dgx_a100[8][8] = {
	{"X", "NV12", "NV12", "NV12", "NV12", "NV12", "NV12", "NV12"},
	{"NV12", "X", "NV12", "NV12", "NV12", "NV12", "NV12", "NV12"},
	{"NV12", "NV12", "X", "NV12", "NV12", "NV12", "NV12", "NV12"},
	{"NV12", "NV12", "NV12", "X", "NV12", "NV12", "NV12", "NV12"},
	{"NV12", "NV12", "NV12", "NV12", "X", "NV12", "NV12", "NV12"},
	{"NV12", "NV12", "NV12", "NV12", "NV12", "X", "NV12", "NV12"},
	{"NV12", "NV12", "NV12", "NV12", "NV12", "NV12", "X", "NV12"},
	{"NV12", "NV12", "NV12", "NV12", "NV12", "NV12", "NV12", "X"},
};

/* Eight GPUs without NVLink: a PCIe switch for each two, two switches for each processor. */
static const char *const layout_pcie_8[8][8] = {
	{"X", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"},
	{"PIX", "X", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"},
	{"NODE", "NODE", "X", "PIX", "SYS", "SYS", "SYS", "SYS"},
	{"NODE", "NODE", "PIX", "X", "SYS", "SYS", "SYS", "SYS"},
	{"SYS", "SYS", "SYS", "SYS", "X", "PIX", "NODE", "NODE"},
	{"SYS", "SYS", "SYS", "SYS", "PIX", "X", "NODE", "NODE"},
	{"SYS", "SYS", "SYS", "SYS", "NODE", "NODE", "X", "PIX"},
	{"SYS", "SYS", "SYS", "SYS", "NODE", "NODE", "PIX", "X"},
};
