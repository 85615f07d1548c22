#include "model/use.h"

#define MIB (UINT64_C(1) << 20)
#define MILLION UINT64_C(1000000)
#define US_NS 1000

static unsigned bucket_of(double part)
{
	return part >= 1 ? USE_BUCKETS - 1 : (unsigned)(part * USE_BUCKETS);
}

/* At the moment of a refusal the container had at least as much as the limit leaves beside the allocation.
 * What it has at the sample may be less, because programs often end after a refusal. */
static uint64_t wanted(const struct use_sample *sample)
{
	uint64_t all = sample->physical_bytes, bytes = sample->used_bytes + sample->refused_bytes;

	if (sample->refused_bytes >= all || bytes >= all)
		return all;
	return bytes > sample->limit_bytes ? bytes : sample->limit_bytes + 1;
}

void use_note_memory(struct use_record *record, const struct use_sample *sample)
{
	uint64_t elapsed = sample->elapsed_ns > 0 ? (uint64_t)sample->elapsed_ns : 0;
	uint64_t ran = sample->idle ? 0 : elapsed;
	uint64_t hoped = sample->refused > record->refused ? wanted(sample) : 0;

	if (sample->used_bytes > record->peak_bytes)
		record->peak_bytes = sample->used_bytes;
	if (hoped > record->wanted_bytes)
		record->wanted_bytes = hoped;
	record->refused = sample->refused;
	record->seen_ns += ran;
	record->granted_mib_us += sample->limit_bytes / MIB * (elapsed / US_NS);
	record->used_mib_us += sample->used_bytes / MIB * (elapsed / US_NS);
	if (sample->limit_bytes)
		record->memory_ns[bucket_of((double)sample->used_bytes / (double)sample->limit_bytes)] += ran;
}

void use_note_core(struct use_record *record, uint64_t elapsed_ns, uint64_t used_ns, uint64_t share)
{
	double granted = (double)elapsed_ns * (double)share / (double)MILLION;

	if (granted > 0)
		record->core_ns[bucket_of((double)used_ns / granted)] += elapsed_ns;
}

uint64_t use_byte_seconds(uint64_t mib_us)
{
	return mib_us / MILLION * MIB + mib_us % MILLION * MIB / MILLION;
}
