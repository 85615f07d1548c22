/* Memory that processes of a container have together, region by region: the records, who is dead, and what a
 * sample makes of it. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "grant/account.h"
#include "grant/overhead.h"
#include "grant/owner.h"
#include "grant/reserve.h"
#include "grant/share.h"

#define MIB UINT64_C(1048576)
#define GIB (1024 * MIB)
#define HASH UINT64_C(0x123456789abcdef0)
#define OTHER_HASH UINT64_C(0xfedcba9876543210)
#define GPUS 2
#define NAMESPACE 0xf000001u

/* ---- records --------------------------------------------------------------------------------------------
 */

static char directory[64], path[128];
static struct grant_file *grant;
static struct usage_file *usage;
static struct account *account;

static int set_up(void **state)
{
	const char *why;

	strcpy(directory, "/tmp/ration-share-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/usage", directory);
	grant = mmap(NULL, sizeof(*grant), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	grant->gpu_count = GPUS;
	grant_file_set_limit(grant, 0, GIB);
	grant_file_set_limit(grant, 1, GIB);
	if (usage_file_create(path, GPUS, &why) < 0 || usage_file_map(path, &usage, &why) < 0)
		return -1;
	account = account_open(grant, usage);
	return account ? 0 : -1;
}

static int tear_down(void **state)
{
	account_close(account);
	usage_file_unmap(usage);
	munmap(grant, sizeof(*grant));
	unlink(path);
	return rmdir(directory);
}

static void a_record_says_what_it_is_of(void **state)
{
	uint64_t word = share_word(SHARE_EXPORT, 63, 600 * MIB, HASH);

	assert_int_equal(share_kind(word), SHARE_EXPORT);
	assert_int_equal(share_gpu(word), 63);
	assert_int_equal(share_bytes(word), 600 * MIB);
	assert_int_equal(share_region(word), share_region(share_word(SHARE_IMPORT, 63, SHARE_UNKNOWN, HASH)));
	assert_int_not_equal(share_region(word), share_region(share_word(SHARE_EXPORT, 62, 600 * MIB, HASH)));
	assert_int_not_equal(
		share_region(word), share_region(share_word(SHARE_EXPORT, 63, 600 * MIB, OTHER_HASH)));
	assert_int_equal(share_bytes(share_word(SHARE_IMPORT, 1, SHARE_UNKNOWN, HASH)), 0);
	assert_int_equal(share_kind(share_as(SHARE_FREED, word)), SHARE_FREED);
	assert_int_equal(share_region(share_as(SHARE_FREED, word)), share_region(word));
}

static void there_is_room_for_so_many_and_no_more(void **state)
{
	uint64_t word = share_word(SHARE_EXPORT, 0, 2 * MIB, HASH);

	for (int i = GPUS; i < GRANT_FILE_GPUS_MAX; i++)
		assert_int_equal(account_note_shared(account, word), i);
	assert_int_equal(account_note_shared(account, word), -ENOSPC);
	assert_false(account_change_shared(account, 5, word + 1, 0));
	assert_true(account_change_shared(account, 5, word, 0));
	assert_int_equal(account_note_shared(account, word), 5);
	/* The sums before them are none of their places. */
	account_share(account, 1, (int64_t)(4 * MIB), (int64_t)(2 * MIB));
	assert_int_equal(usage->slots[0].shared[1], UINT64_C(1024) << 32 | 512);
	assert_int_equal(usage->slots[0].shared[0], 0);
}

static void whether_others_have_it_is_asked_of_their_records(void **state)
{
	uint64_t ours = share_word(SHARE_EXPORT, 1, 600 * MIB, HASH);
	uint64_t theirs = share_word(SHARE_IMPORT, 1, SHARE_UNKNOWN, HASH);
	_Atomic uint64_t *other = &usage->slots[1].shared[GRANT_FILE_GPUS_MAX - 1];

	usage->slots_used = 2;
	*other = theirs;
	/* A process without a slot has exported nothing. */
	assert_false(account_is_imported(account, ours));
	assert_int_equal(account_note_shared(account, ours), GPUS);
	assert_true(account_is_imported(account, ours));
	assert_false(account_is_imported(account, share_word(SHARE_EXPORT, 0, 600 * MIB, HASH)));
	assert_false(account_is_imported(account, share_word(SHARE_EXPORT, 1, 600 * MIB, OTHER_HASH)));
	*other = share_as(SHARE_EXPORT, theirs);
	assert_false(account_is_imported(account, ours));
	*other = 0;
	assert_int_equal(account_note_shared(account, theirs), GPUS + 1);
	assert_false(account_is_imported(account, ours));
}

static void a_process_that_finds_no_slot_shares_nothing(void **state)
{
	struct owner self;
	uint64_t living;

	owner_self(&self);
	living = owner_word(1, OWNER_NAMESPACE(self.word)); /* init */
	usage->slots_used = USAGE_FILE_SLOTS;
	for (uint32_t i = 0; i < USAGE_FILE_SLOTS; i++)
		usage->slots[i].owner = living;
	assert_int_equal(account_note_shared(account, share_word(SHARE_EXPORT, 1, MIB, HASH)), -ENOSPC);
	account_share(account, 1, (int64_t)MIB, (int64_t)MIB);
	for (uint32_t i = 0; i < USAGE_FILE_SLOTS; i++)
		for (unsigned k = 0; k < GRANT_FILE_GPUS_MAX; k++)
			assert_int_equal(usage->slots[i].shared[k], 0);
}

/* A process that has charged a GiB of the second GPU, exported 600 MiB of it by a record (or as a sum), and
 * was killed. */
static uint64_t dead_maker(bool by_record)
{
	int slot;
	pid_t child = fork();

	if (child == 0) {
		account_charge(account, 1, GIB);
		if (by_record)
			account_note_shared(account, share_word(SHARE_EXPORT, 1, 600 * MIB, HASH));
		else
			account_share(account, 1, (int64_t)(600 * MIB), 0);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (slot = 0; OWNER_PID(atomic_load(&usage->slots[slot].owner)) != (uint32_t)child; slot++)
		;
	return atomic_load(&usage->slots[slot].owner);
}

static void what_a_dead_maker_was_charged_for_stays_while_others_have_it(void **state)
{
	uint64_t import = share_word(SHARE_IMPORT, 1, 600 * MIB, HASH);
	int place = account_note_shared(account, import);

	dead_maker(true);
	assert_true(place > 0);
	assert_int_equal(account_charge(account, 1, 4096), -ENOMEM);
	assert_int_equal(account_used_bytes(account, 1), GIB);
	assert_true(account_change_shared(account, (unsigned)place, import, 0));
	assert_int_equal(account_charge(account, 1, GIB), 0);
}

static void the_keeper_says_when_it_may_go(void **state)
{
	uint64_t owner;

	assert_true(account_note_shared(account, share_word(SHARE_IMPORT, 1, 600 * MIB, HASH)) > 0);
	owner = dead_maker(true);
	assert_int_equal(account_charge(account, 1, 4096), -ENOMEM);
	owner_note_dead(grant, 1, owner);
	assert_int_equal(account_charge(account, 1, GIB), 0);
}

static void what_others_have_of_somebody_else_holds_up_nothing(void **state)
{
	assert_true(account_note_shared(account, share_word(SHARE_IMPORT, 1, 600 * MIB, OTHER_HASH)) > 0);
	assert_true(account_note_shared(account, share_word(SHARE_IMPORT, 0, 600 * MIB, HASH)) > 0);
	assert_true(account_note_shared(account, share_word(SHARE_EXPORT, 1, 600 * MIB, HASH)) > 0);
	dead_maker(true);
	assert_int_equal(account_charge(account, 1, GIB), 0);
}

static void sums_hold_it_up_where_others_have_anything(void **state)
{
	account_share(account, 1, 0, (int64_t)(2 * MIB));
	dead_maker(false);
	assert_int_equal(account_charge(account, 1, 4096), -ENOMEM);
	account_share(account, 1, 0, -(int64_t)(2 * MIB));
	assert_int_equal(account_charge(account, 1, GIB), 0);
}

/* ---- what a sample makes of it --------------------------------------------------------------------------
 */

static struct overhead_process process(uint32_t pid, uint64_t mib)
{
	return (struct overhead_process){.owner = {.word = owner_word(pid, NAMESPACE)}, .bytes = mib * MIB};
}

static struct usage_peek_slot slot(uint32_t pid, uint64_t held_mib, uint64_t moves)
{
	return (struct usage_peek_slot){
		.owner = UINT64_C(1) << OWNER_GENERATION_SHIFT | owner_word(pid, NAMESPACE),
		.moves = moves << 32,
		.held_bytes = held_mib * MIB};
}

static void has(struct usage_peek_slot *slot, enum share_kind kind, uint64_t mib, uint64_t hash)
{
	slot->shares[slot->n_shares++] = share_word(kind, 0, mib * MIB, hash);
}

static uint64_t overhead_mib(struct overhead_process *p, size_t n, const struct usage_peek_slot *before,
	const struct usage_peek_slot *after, size_t n_slots)
{
	struct overhead found;

	overhead_compute(p, n, before, n_slots, after, n_slots, &found);
	return found.overhead_bytes / MIB;
}

/* 7 made 512 MiB; 8 and 9 opened them. Each has a context of 300. */
static void three(struct overhead_process p[3], struct usage_peek_slot s[3])
{
	for (uint32_t i = 0; i < 3; i++) {
		p[i] = process(7 + i, 812);
		s[i] = slot(7 + i, i == 0 ? 512 : 0, 5);
		has(&s[i], i == 0 ? SHARE_EXPORT : SHARE_IMPORT, 512, HASH);
	}
}

static void a_region_counts_for_its_maker(void **state)
{
	struct overhead_process p[3];
	struct usage_peek_slot s[3];

	three(p, s);
	assert_int_equal(overhead_mib(p, 3, s, s, 3), 900);
}

static void without_its_maker_it_counts_for_one_of_those_who_have_it(void **state)
{
	struct overhead_process p[3];
	struct usage_peek_slot s[3];

	three(p, s);
	assert_int_equal(overhead_mib(p + 1, 2, s, s, 3), 600 + 512);
	/* The first of them ends. */
	assert_int_equal(overhead_mib(p + 2, 1, s, s, 3), 300 + 512);
}

/* 7 and 8 made four regions of 100 MiB each, and 9 opened them: one more than it has records for. */
static void what_an_importer_has_no_record_of_counts_for_its_makers(void **state)
{
	struct overhead_process p[] = {process(7, 500), process(8, 500), process(9, 700)};
	struct usage_peek_slot s[] = {slot(7, 200, 5), slot(8, 200, 5), slot(9, 0, 5)};

	for (uint32_t i = 0; i < 4; i++) {
		has(&s[i / 2], SHARE_EXPORT, 100, HASH + ((uint64_t)i << 40));
		if (i < 3)
			has(&s[2], SHARE_IMPORT, 100, HASH + ((uint64_t)i << 40));
	}
	s[2].imported_bytes = 100 * MIB;
	assert_int_equal(overhead_mib(p, 3, s, s, 3), 900);
	/* One that its maker no longer has is not matched by what the others made. */
	p[1].bytes = 400 * MIB;
	s[1].held_bytes = 100 * MIB;
	s[1].n_shares = 1;
	assert_int_equal(overhead_mib(p, 3, s, s, 3), 1000);
}

static void so_it_does_where_its_maker_has_freed_it(void **state)
{
	struct overhead_process p[3];
	struct usage_peek_slot s[3];

	three(p, s);
	p[0].bytes = 300 * MIB;
	s[0].shares[0] = share_as(SHARE_FREED, s[0].shares[0]);
	/* What it was charged for goes after this sample. */
	assert_int_equal(overhead_mib(p, 3, s, s, 3), 600 + 512);
}

static void it_does_not_hide_behind_what_nobody_has_opened(void **state)
{
	struct overhead_process p[] = {process(7, 812), process(8, 812)};
	struct usage_peek_slot s[] = {slot(7, 512, 5), slot(8, 0, 5)};

	has(&s[0], SHARE_EXPORT, 512, OTHER_HASH);
	has(&s[1], SHARE_IMPORT, 512, HASH);
	assert_int_equal(overhead_mib(p, 2, s, s, 2), 600 + 512);
}

static void it_counts_at_once_for_one_that_never_rests(void **state)
{
	struct overhead_process p[3];
	struct usage_peek_slot s[3], later[3];

	three(p, s);
	assert_int_equal(overhead_mib(p, 3, s, s, 3), 900);
	memcpy(later, s, sizeof(s));
	for (size_t i = 0; i < 3; i++)
		later[i].moves += UINT64_C(1) << 32;
	assert_int_equal(overhead_mib(p + 1, 2, s, later, 3), 600 + 512);
	/* Not once more with each sample. */
	assert_int_equal(overhead_mib(p + 1, 2, s, later, 3), 600 + 512);
	assert_int_equal(overhead_mib(p + 1, 2, s, s, 3), 600 + 512);
	/* It is closed: less is learnt when they rest. */
	p[1].bytes = p[2].bytes = 300 * MIB;
	s[1].n_shares = s[2].n_shares = later[1].n_shares = later[2].n_shares = 0;
	assert_int_equal(overhead_mib(p + 1, 2, s, later, 3), 600 + 512);
	assert_int_equal(overhead_mib(p + 1, 2, s, s, 3), 600);
}

static void what_is_just_being_opened_is_as_large_as_its_maker_said(void **state)
{
	struct overhead_process p[] = {process(8, 300)};
	struct usage_peek_slot s[] = {slot(7, 512, 5), slot(8, 0, 5)}, later[2];

	has(&s[0], SHARE_EXPORT, 512, HASH);
	memcpy(later, s, sizeof(s));
	assert_int_equal(overhead_mib(p, 1, s, s, 2), 300);
	later[1].shares[later[1].n_shares++] = share_word(SHARE_IMPORT, 0, SHARE_UNKNOWN, HASH);
	later[1].moves += (UINT64_C(1) << 32) + 1;
	assert_int_equal(overhead_mib(p, 1, s, later, 2), 300 + 512);
	/* Of somebody who is not known it is nothing yet. */
	later[0].n_shares = 0;
	p[0].known = (struct overhead_known){0};
	assert_int_equal(overhead_mib(p, 1, s, later, 2), 300);
}

static void what_finds_no_place_counts_for_each_who_has_it(void **state)
{
	enum { SLOTS = 200, EACH = 60 };
	struct overhead_process *p = calloc(SLOTS, sizeof(*p));
	struct usage_peek_slot *s = calloc(SLOTS, sizeof(*s));

	for (uint32_t i = 0; i < SLOTS; i++) {
		p[i] = process(i + 1, 300 + EACH * 2);
		s[i] = slot(i + 1, 0, 5);
		for (uint64_t k = 0; k < EACH; k++)
			has(&s[i], SHARE_IMPORT, 2, ((i * EACH + k) << 28) + HASH);
	}
	assert_int_equal(overhead_mib(p, SLOTS, s, s, SLOTS), SLOTS * (300 + EACH * 2));
	free(p);
	free(s);
}

#define FILES(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_says_what_it_is_of),
		FILES(there_is_room_for_so_many_and_no_more),
		FILES(whether_others_have_it_is_asked_of_their_records),
		FILES(a_process_that_finds_no_slot_shares_nothing),
		FILES(what_a_dead_maker_was_charged_for_stays_while_others_have_it),
		FILES(the_keeper_says_when_it_may_go),
		FILES(what_others_have_of_somebody_else_holds_up_nothing),
		FILES(sums_hold_it_up_where_others_have_anything),
		cmocka_unit_test(a_region_counts_for_its_maker),
		cmocka_unit_test(without_its_maker_it_counts_for_one_of_those_who_have_it),
		cmocka_unit_test(what_an_importer_has_no_record_of_counts_for_its_makers),
		cmocka_unit_test(so_it_does_where_its_maker_has_freed_it),
		cmocka_unit_test(it_does_not_hide_behind_what_nobody_has_opened),
		cmocka_unit_test(it_counts_at_once_for_one_that_never_rests),
		cmocka_unit_test(what_is_just_being_opened_is_as_large_as_its_maker_said),
		cmocka_unit_test(what_finds_no_place_counts_for_each_who_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
