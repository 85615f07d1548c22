/* units.h - gpu-mem is counted in units whose size is set per node (1 GiB unless the chart says otherwise).
 */
#pragma once

#include <stdint.h>

/* More than any GPU has in any unit (2^30 units of 128 MiB are 128 PiB). Larger requests count as this much:
 * sums over a pod's containers cannot overflow, and such a pod simply fits nowhere. */
#define UNITS_MAX UINT32_C(0x3fffffff)

#define MIB (UINT64_C(1) << 20)
#define UNIT_MIB_DEFAULT 1024
#define UNIT_MIB_MAX (1024 * 1024) /* the largest that is accepted from an annotation */

/* units_of_gpu() - whole units of a GPU with this many MiB, rounded down as ACK does (15 for 16160 MiB). */
uint32_t units_of_gpu(uint64_t gpu_mib, uint32_t unit_mib);

/* units_limit_bytes() - how much memory these units of a GPU are: GPU x units / units of the GPU, in whole
 * MiB, rounded down (contract, section 3). units_for_bytes() - the fewest units, at least 1, whose limit is
 * this much; all of the GPU if none is. */
uint64_t units_limit_bytes(uint64_t gpu_mib, uint32_t units, uint32_t unit_mib);
uint32_t units_for_bytes(uint64_t gpu_mib, uint64_t bytes, uint32_t unit_mib);

/* units_convert() - how many units of to_mib hold as much as `units` of from_mib, rounded up. If either size
 * is 0, the number stays. */
uint32_t units_convert(uint32_t units, uint32_t from_mib, uint32_t to_mib);

/* units_add() - the sum, at most UNITS_MAX. */
uint32_t units_add(uint32_t a, uint32_t b);

/* unit_parse() - converts "1GiB", "128MiB", "256MiB", "512MiB" to MiB; -EINVAL for anything else. */
int unit_parse(const char *text, uint32_t *ret_unit_mib);
