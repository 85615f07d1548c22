#include "run/power.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "grant/peek.h"
#include "model/activity.h"
#include "model/correction.h"
#include "model/shares.h"
#include "run/registry.h"

#define SLOW_NS (100 * NS_PER_MS) /* how often runs that began or ended normally are detected */
#define SCAN_NS NS_PER_S	  /* how often runs that ended without a trace are detected */
/* How often work is checked, if the policy needs it: this often for few runs, and more rarely for many. */
#define FAST_NS (20 * NS_PER_MS)
#define FAST_LONGEST_NS (60 * NS_PER_MS)
#define FAST_RUNS 8
#define LOOKS 3 /* with fewer samples, it is unknown whether a run has work */

/* What another run does on one GPU of this run. */
struct peer_gpu {
	int index; /* of the GPU in its grant; -1: it is not on this GPU */
	struct activity activity;
	unsigned looks;
	bool busy;
};

struct peer {
	char folder[PATH_MAX];
	struct run_power asked;
	int usage_fd; /* -1: it belongs to another user */
	bool seen;
	struct peer_gpu gpus[]; /* one for each GPU of this run */
};

struct own_gpu {
	struct activity activity;
	unsigned looks;
	bool busy;
	struct correction correction;
	uint64_t share, rate, word; /* as in the grant */
};

struct power {
	const char *folder;
	struct grant_file *grant;
	int usage_fd;
	struct run_power asked;
	struct peer **peers;
	size_t n_peers;
	int64_t scanned_ns, stamp;
	struct own_gpu gpus[GRANT_FILE_GPUS_MAX];
	struct share_holder *holders; /* room for all peers and this run */
	uint32_t *shares;
};

/* ---- who runs -------------------------------------------------------------------------------------------
 */

static void peer_free(struct peer *peer)
{
	close_ptr(&peer->usage_fd);
	free(peer);
}

static struct peer *peer_find(const struct power *power, const char *folder)
{
	for (size_t i = 0; i < power->n_peers; i++)
		if (strcmp(power->peers[i]->folder, folder) == 0)
			return power->peers[i];
	return NULL;
}

static int make_room(struct power *power)
{
	size_t n = power->n_peers + 2;
	struct peer **peers = reallocarray(power->peers, n, sizeof(struct peer *));
	struct share_holder *holders = reallocarray(power->holders, n, sizeof(*holders));
	uint32_t *shares = reallocarray(power->shares, n, sizeof(*shares));

	power->peers = peers ? peers : power->peers;
	power->holders = holders ? holders : power->holders;
	power->shares = shares ? shares : power->shares;
	return peers && holders && shares ? 0 : -ENOMEM;
}

static struct peer *peer_add(struct power *power, const struct run_seen *run)
{
	unsigned n = power->grant->gpu_count;
	struct peer *peer = calloc(1, sizeof(*peer) + n * sizeof(peer->gpus[0]));
	char path[PATH_MAX];

	if (!peer || make_room(power) < 0) {
		free(peer);
		return NULL;
	}
	snprintf(peer->folder, sizeof(peer->folder), "%s", run->folder);
	snprintf(path, sizeof(path), "%.4080s/usage", run->folder);
	peer->usage_fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	for (unsigned i = 0; i < n; i++) {
		peer->gpus[i].index = -1;
		for (unsigned k = 0; k < run->grant->gpu_count; k++)
			if (strcmp(power->grant->gpus[i].uuid, run->grant->gpus[k].uuid) == 0)
				peer->gpus[i].index = (int)k;
	}
	power->peers[power->n_peers++] = peer;
	return peer;
}

static int add_run(void *context, const struct run_seen *run)
{
	struct power *power = context;
	bool ours = strcmp(run->folder, power->folder) == 0;
	struct peer *peer = ours ? NULL : peer_find(power, run->folder);

	if (ours) {
		power->asked = run->power;
		return 0;
	}
	if (!peer)
		peer = peer_add(power, run);
	if (!peer)
		return 0;
	peer->seen = true;
	peer->asked = run->power;
	/* For another user's run, the values that its own keeper has seen. */
	for (unsigned i = 0; i < power->grant->gpu_count && peer->usage_fd < 0; i++) {
		struct peer_gpu *gpu = &peer->gpus[i];

		if (gpu->index >= 0)
			gpu->busy = atomic_load(&run->grant->live[gpu->index].core_policy) & GRANT_CORE_BUSY;
		gpu->looks = LOOKS;
	}
	return 0;
}

static void forget_unseen(struct power *power)
{
	size_t kept = 0;

	for (size_t i = 0; i < power->n_peers; i++) {
		if (power->peers[i]->seen)
			power->peers[kept++] = power->peers[i];
		else
			peer_free(power->peers[i]);
	}
	power->n_peers = kept;
}

/* Returns true if the list of runs was read again. */
static bool scan(struct power *power, int64_t now)
{
	_cleanup_registry_ struct registry registry;
	struct error ignored;
	int64_t stamp;

	if (registry_open(&registry, false, &ignored) < 0)
		return false;
	stamp = registry_stamp(&registry);
	if (stamp == power->stamp && now - power->scanned_ns < SCAN_NS)
		return false;
	power->stamp = stamp;
	power->scanned_ns = now;
	for (size_t i = 0; i < power->n_peers; i++)
		power->peers[i]->seen = false;
	registry_each(&registry, add_run, power);
	forget_unseen(power);
	return true;
}

/* ---- who has work ---------------------------------------------------------------------------------------
 */

static bool look(int fd, unsigned index, int64_t now, struct activity *activity, unsigned *looks)
{
	struct usage_peek_power seen;

	*looks += *looks < LOOKS;
	if (usage_peek_power(fd, index, &seen) < 0)
		return false;
	return activity_see(activity, now, seen.started_ns + seen.copied_ns, seen.asked);
}

/* A run with too few samples counts as working, so that no run loses its share by mistake. */
static size_t look_at_gpu(struct power *power, unsigned gpu, int64_t now)
{
	struct own_gpu *own = &power->gpus[gpu];
	size_t n = 0;

	own->busy = look(power->usage_fd, gpu, now, &own->activity, &own->looks);
	for (size_t i = 0; i < power->n_peers; i++) {
		struct peer *peer = power->peers[i];
		struct peer_gpu *its = &peer->gpus[gpu];

		if (its->index < 0)
			continue;
		n++;
		if (peer->usage_fd >= 0)
			its->busy = look(
				peer->usage_fd, (unsigned)its->index, now, &its->activity, &its->looks);
	}
	return n;
}

/* ---- what follows ---------------------------------------------------------------------------------------
 */

static void gpu_write(struct power *power, unsigned gpu, uint32_t share)
{
	struct own_gpu *own = &power->gpus[gpu];
	bool soft = power->asked.policy == SHARE_SOFT;
	uint64_t rate = share < SHARE_WHOLE ? correction_rate(&own->correction, share) : share;
	uint64_t word = (uint64_t)(power->asked.policy + 1) | (soft && own->busy ? GRANT_CORE_BUSY : 0);

	if (own->share == share && own->rate == rate && own->word == word)
		return;
	grant_file_set_power(power->grant, gpu, share, rate, word);
	own->share = share;
	own->rate = rate;
	own->word = word;
}

static void divide(struct power *power, unsigned gpu)
{
	const struct own_gpu *own = &power->gpus[gpu];
	size_t n = 1;

	power->holders[0] = (struct share_holder){
		.percent = power->asked.percent,
		.weight = power->asked.weight,
		.busy = own->busy || own->looks < LOOKS,
	};
	for (size_t i = 0; i < power->n_peers; i++) {
		const struct peer *peer = power->peers[i];
		const struct peer_gpu *its = &peer->gpus[gpu];

		if (its->index >= 0)
			power->holders[n++] = (struct share_holder){
				.percent = peer->asked.percent,
				.weight = peer->asked.weight,
				.busy = its->busy || its->looks < LOOKS,
			};
	}
	shares_compute((enum share_policy)power->asked.policy, 0, power->holders, n, power->shares);
	gpu_write(power, gpu, power->shares[0]);
}

int64_t power_round(struct power *power)
{
	int64_t now = monotonic_ns(), again;
	size_t most = 0;

	scan(power, now);
	/* A run of an older version, or with a damaged folder, keeps its share. */
	if (power->asked.policy < 0)
		return SLOW_NS;
	for (unsigned i = 0; i < power->grant->gpu_count; i++) {
		size_t n = power->asked.policy == SHARE_SOFT ? look_at_gpu(power, i, now) : 0;

		most = n > most ? n : most;
		divide(power, i);
	}
	if (most == 0)
		return SLOW_NS;
	again = most > FAST_RUNS ? FAST_NS * (int64_t)most / FAST_RUNS : FAST_NS;
	return again < FAST_LONGEST_NS ? again : FAST_LONGEST_NS;
}

bool power_wants_use(const struct power *power, unsigned gpu)
{
	return power->gpus[gpu].share && power->gpus[gpu].share < SHARE_WHOLE;
}

int64_t power_use_ns(const struct power *power)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < power->grant->gpu_count; i++) {
		uint64_t look = correction_look_ns(&power->gpus[i].correction);

		least = look < least ? look : least;
	}
	return least < INT64_MAX ? (int64_t)least : INT64_MAX;
}

void power_used(
	struct power *power, unsigned gpu, uint32_t percent, uint64_t who, const struct correction_gpu *said)
{
	struct correction_look look = {.now_ns = monotonic_ns(), .who = who, .percent = percent};
	struct correction_seen ignored;
	struct usage_peek_power usage;

	if (usage_peek_power(power->usage_fd, gpu, &usage) < 0)
		return;
	look.started_ns = usage.started_ns;
	correction_look(&power->gpus[gpu].correction, &look, said, &ignored);
}

int power_new(const char *folder, struct grant_file *grant, int usage_fd, struct power **ret_power)
{
	struct power *power = calloc(1, sizeof(*power));

	if (!power || make_room(power) < 0) {
		power_free(power);
		return -ENOMEM;
	}
	power->folder = folder;
	power->grant = grant;
	power->usage_fd = usage_fd;
	power->asked.policy = -1;
	for (unsigned i = 0; i < grant->gpu_count; i++) {
		struct own_gpu *own = &power->gpus[i];

		own->share = atomic_load(&grant->live[i].core_share);
		own->rate = atomic_load(&grant->live[i].core_rate);
		own->word = atomic_load(&grant->live[i].core_policy);
		correction_resume(&own->correction, own->share, own->rate);
	}
	*ret_power = power;
	return 0;
}

void power_free(struct power *power)
{
	if (!power)
		return;
	for (size_t i = 0; i < power->n_peers; i++)
		peer_free(power->peers[i]);
	free(power->peers);
	free(power->holders);
	free(power->shares);
	free(power);
}
