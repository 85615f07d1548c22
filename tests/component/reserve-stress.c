/* reserve-stress MODE ROUNDS [SEED] - real processes on one usage file.
 *
 * pair: two processes ask for 60 % at the same moment; each round exactly one must get it.
 * kill: a few processes take and give; each round one kills itself after a step of the protocol that chance
 * chose, or is killed from outside at any instruction; then what the living hold, plus what is left of the
 * limit, must be the limit to the page. Prints a line and exits 0, or says what was wrong. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "grant/account.h"
#include "grant/owner.h"
#include "grant/reserve.h"

#define WORKERS 4
#define LIMIT_PAGES 1000

/* Shared by all of them, outside the protocol. */
struct stage {
	_Atomic uint32_t round;
	_Atomic uint32_t done;
	_Atomic uint32_t took;
	_Atomic uint32_t left;
	_Atomic uint32_t pause;		  /* 0, or the round for whose check all rest */
	_Atomic uint32_t paused[WORKERS]; /* the round for which it rests */
	_Atomic uint32_t has[WORKERS];	  /* pages, at the least, that a worker holds while it is paused */
};

static struct grant_file *grant;
static struct usage_file *usage;
static struct stage *stage;

static void *shared(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int set_up(void)
{
	char path[] = "/tmp/ration-stress-XXXXXX";
	const char *why = "";
	int fd = mkstemp(path), r;

	if (fd < 0)
		return -errno;
	close(fd);
	grant = shared(sizeof(*grant));
	stage = shared(sizeof(*stage));
	grant->gpu_count = 1;
	grant_file_set_limit(grant, 0, (uint64_t)LIMIT_PAGES << USAGE_PAGE_SHIFT);
	r = usage_file_create(path, 1, &why);
	if (r == 0)
		r = usage_file_map(path, &usage, &why);
	unlink(path);
	return r;
}

static void wait_until(_Atomic uint32_t *at, uint32_t value)
{
	while (atomic_load(at) != value)
		sched_yield();
}

/* ---- pair -----------------------------------------------------------------------------------------------
 */

static void pair_worker(uint32_t rounds)
{
	struct account *account = account_open(grant, usage);
	uint64_t bytes = ((uint64_t)LIMIT_PAGES * 6 / 10) << USAGE_PAGE_SHIFT;

	for (uint32_t round = 1; round <= rounds; round++) {
		bool took;

		wait_until(&stage->round, round);
		took = account_charge(account, 0, bytes) == 0;
		atomic_fetch_add(&stage->took, took);
		atomic_fetch_add(&stage->done, 1);
		wait_until(&stage->done, 2 * round);
		if (took)
			account_refund(account, 0, bytes);
		atomic_fetch_add(&stage->left, 1);
	}
	_exit(0);
}

static int pair(uint32_t rounds)
{
	for (int i = 0; i < 2; i++)
		if (fork() == 0)
			pair_worker(rounds);
	for (uint32_t round = 1; round <= rounds; round++) {
		atomic_store(&stage->took, 0);
		atomic_store(&stage->round, round);
		wait_until(&stage->left, 2 * round);
		if (stage->took != 1) {
			printf("round %u: %u of 2 got it\n", round, stage->took);
			return 1;
		}
	}
	while (wait(NULL) > 0)
		continue;
	if (usage->gpus[0].total != 0) {
		printf("the sum is %llx in the end\n", (unsigned long long)usage->gpus[0].total);
		return 1;
	}
	printf("%u rounds: one of two, each time\n", rounds);
	return 0;
}

/* ---- kill -----------------------------------------------------------------------------------------------
 */

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A change, step by step; kills this process after as many steps as are left of *life. */
static bool change(struct reserve *reserve, enum reserve_kind kind, uint32_t pages, int64_t *life)
{
	enum reserve_result result;

	reserve->kind = kind;
	reserve->pages = pages;
	reserve->gpu = 0;
	reserve_begin(reserve);
	do {
		if ((*life)-- == 0)
			raise(SIGKILL);
		result = reserve_step(reserve);
		if (result == RESERVE_WAITS)
			sched_yield();
	} while (result == RESERVE_GOES_ON || result == RESERVE_WAITS);
	return result == RESERVE_DONE;
}

static void rest(unsigned worker)
{
	uint32_t round = atomic_load(&stage->pause);

	if (round == 0)
		return;
	atomic_store(&stage->paused[worker], round);
	while (atomic_load(&stage->pause) == round)
		usleep(100);
}

static void kill_worker(unsigned worker, uint64_t seed, int64_t life)
{
	struct owner self;
	struct reserve_world world = {.is_dead = owner_is_dead, .context = &self};
	struct reserve reserve = {.usage = usage, .world = &world, .limit_pages = LIMIT_PAGES};
	uint32_t has = 0;

	owner_self(&self);
	reserve.owner = self.word;
	if (!change(&reserve, RESERVE_CLAIM, 0, &life))
		_exit(2);
	owner_sign(&usage->slots[reserve.slot], reserve.owner, &self);
	for (;;) {
		uint32_t pages = 1 + (uint32_t)(random_next(&seed) % 400);

		rest(worker);
		if (random_next(&seed) % 2 && has >= pages) {
			atomic_store(&stage->has[worker], has -= pages);
			change(&reserve, RESERVE_GIVE, pages, &life);
		} else if (change(&reserve, RESERVE_TAKE, pages, &life)) {
			atomic_store(&stage->has[worker], has += pages);
		}
	}
}

static pid_t start_worker(unsigned worker, uint64_t *seed)
{
	uint64_t own = random_next(seed);
	/* Half of them live until they are killed from outside. */
	int64_t life = random_next(seed) % 2 ? INT64_MAX : (int64_t)(random_next(seed) % 200);
	pid_t pid;

	atomic_store(&stage->has[worker], 0);
	atomic_store(&stage->paused[worker], 0);
	pid = fork();
	if (pid == 0)
		kill_worker(worker, own, life);
	return pid;
}

/* All that live rest. Returns what they hold; fills the pids of those that have ended with 0. */
static uint64_t held_by_living(pid_t *pids, uint32_t round)
{
	uint64_t pages = 0;

	atomic_store(&stage->pause, round);
	for (unsigned i = 0; i < WORKERS; i++) {
		while (atomic_load(&stage->paused[i]) != round) {
			if (pids[i] == 0 || waitpid(pids[i], NULL, WNOHANG) == pids[i]) {
				pids[i] = 0;
				break;
			}
			usleep(50);
		}
		if (pids[i])
			pages += atomic_load(&stage->has[i]);
	}
	return pages;
}

static int check_round(struct account *account, uint32_t round, uint64_t held)
{
	uint64_t left = (LIMIT_PAGES - held) << USAGE_PAGE_SHIFT;

	if (held > LIMIT_PAGES) {
		printf("round %u: %llu pages are held\n", round, (unsigned long long)held);
		return 1;
	}
	if (left > 0 && account_charge(account, 0, left) != 0) {
		printf("round %u: pages are lost: %llu are held, the sum says %llu\n", round,
			(unsigned long long)held,
			(unsigned long long)USAGE_TOTAL_PAGES(usage->gpus[0].total));
		return 1;
	}
	if (account_charge(account, 0, 1) == 0) {
		printf("round %u: a page more than the limit\n", round);
		return 1;
	}
	account_refund(account, 0, left);
	return 0;
}

static int killing(uint32_t rounds, uint64_t seed)
{
	static struct account *account; /* it has charged: it lives as long as the process */
	pid_t pids[WORKERS] = {0};
	uint32_t round, deaths = 0;
	int r = 0;

	account = account_open(grant, usage);

	for (round = 1; round <= rounds && r == 0; round++) {
		unsigned victim = (unsigned)(random_next(&seed) % WORKERS);

		for (unsigned i = 0; i < WORKERS; i++)
			if (pids[i] == 0)
				pids[i] = start_worker(i, &seed);
		usleep((useconds_t)(random_next(&seed) % 1500));
		kill(pids[victim], SIGKILL);
		waitpid(pids[victim], NULL, 0);
		pids[victim] = 0;
		r = check_round(account, round, held_by_living(pids, round));
		atomic_store(&stage->pause, 0);
		for (unsigned i = 0; i < WORKERS; i++)
			deaths += pids[i] == 0;
	}
	for (unsigned i = 0; i < WORKERS; i++)
		if (pids[i])
			kill(pids[i], SIGKILL);
	if (r == 0)
		printf("%u rounds, %u killed, %u recounts: the sum was right\n", rounds, deaths,
			(unsigned)usage->gpus[0].recounts);
	return r;
}

int main(int argc, char **argv)
{
	uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	int r;

	if (rounds == 0 || (strcmp(argv[1], "pair") != 0 && strcmp(argv[1], "kill") != 0)) {
		fprintf(stderr, "usage: reserve-stress pair|kill ROUNDS [SEED]\n");
		return 2;
	}
	r = set_up();
	if (r < 0) {
		fprintf(stderr, "reserve-stress: %s\n", strerror(-r));
		return 2;
	}
	return strcmp(argv[1], "pair") == 0 ? pair(rounds) : killing(rounds, seed * 0x9e3779b97f4a7c15 + 1);
}
