"""The model checks of the reservation protocol and of samples notice what would be wrong: each of these changes to the
shipped source must make one of their tests fail. (That the source itself passes is tests/unit/test-reserve-model.c and
test-overhead-model.c.)"""
import os
import pathlib
import shlex
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/grant/reserve.c"

MUTATIONS = {
    "a recount ends with the epoch that it began with":
        ("((r->total >> 32) + 1) << 32", "((r->total >> 32) - 1) << 32"),
    "a change is added to a total without a look whether a recount revoked it":
        ("return go(r, CHECK_ANNOUNCED);", "return go(r, CHANGE_TOTAL);"),
    "a reservation is not announced":
        ("atomic_store(word_of(r, r->slot), announced(r));", ";"),
    "the word is changed before the total, by whoever gives":
        ("return r->held | (uint64_t)r->pages << 32 | (r->kind == RESERVE_GIVE ? GIVES : 0);",
         "return r->kind == RESERVE_GIVE ? given(r->held, r->pages) : (r->held | (uint64_t)r->pages << 32);"),
    "the word is changed before the total, by whoever takes":
        ("return r->held | (uint64_t)r->pages << 32 | (r->kind == RESERVE_GIVE ? GIVES : 0);",
         "return r->kind == RESERVE_TAKE ? r->held + r->pages : (r->held | (uint64_t)r->pages << 32 | GIVES);"),
    "a recount counts what is only announced":
        ("given(held, CHANGE_PAGES(r->at_word)) : held;", "held : held + CHANGE_PAGES(r->at_word);"),
    "a recount leaves announcements as they are":
        ("if (settled(r) == r->at_word)", "if (r->at != r->dead || settled(r) == r->at_word)"),
    "a recount writes the settled word without looking whether its owner was faster":
        ("if (!replace(word_of(r, r->at), r->at_word, settled(r)))",
         "if (atomic_store(word_of(r, r->at), settled(r)), false)"),
    "a reservation that was revoked is taken for done":
        ("replace(word_of(r, r->slot), announced(r), after) || r->kind == RESERVE_GIVE",
         "replace(word_of(r, r->slot), announced(r), after) || true"),
    "a refusal does not look whether another process has just recounted":
        ("atomic_load(total_of(r)) >> 32 == r->total >> 32 ?", "true ?"),
    "an heir owns at once what its predecessor held":
        ("r->owner | OWNER_IS_HEIR |", "r->owner |"),
    "an heir does not look at what its predecessor held":
        ("if (r->at_word != 0)", "if (false)"),
    "a recount begins although the total is not what it was before the search":
        ("if (!replace(total_of(r), r->total, ours))", "if (atomic_store(total_of(r), ours), false)"),
    "a recount does not stop for another that is going on":
        ("	start_again(r);\n		return RESERVE_WAITS;", "	r->dead = NO_SLOT;\n		return go(r, RECOUNT_BEGIN);"),
    "the recount of a dead process is waited for":
        ("OWNER_PID(owner) != 0 && !r->world->is_dead(r->world->context, &r->usage->slots[slot], owner)",
         "OWNER_PID(owner) != 0"),
    "nobody looks for the dead before a refusal":
        ("return go(r, SEARCH_BEGIN);\n	}\n}", "return RESERVE_REFUSED;\n	}\n}"),
    "what just fits is refused":
        ("+ r->pages > r->limit_pages", "+ r->pages >= r->limit_pages"),
    "a page more than fits is granted":
        ("+ r->pages > r->limit_pages", "+ r->pages > r->limit_pages + 1"),
    "the total is changed by a plain store":
        ("return go(r, replace(total_of(r), r->total, epoch | pages) ? COMMIT : READ_TOTAL);",
         "atomic_store(total_of(r), epoch | pages);\n	return go(r, COMMIT);"),
    "a new slot is not counted":
        ("r->end > r->slot ? CLAIM_WORD : CLAIM_RAISE", "CLAIM_WORD"),
}


OVERHEAD = ROOT / "src/grant/overhead.c"
OVERHEAD_MUTATIONS = {
    "equal numbers before and after are taken for a rest":
        ("a->imported == b->imported &&\n	       a->moves == b->moves;", "a->imported == b->imported;"),
    "a call under way is overlooked":
        ("if (still && !now->under_way) {", "if (still) {"),
    "less is learnt while a call goes on":
        ("known->bytes = larger(known->bytes, seen);", "known->bytes = seen;"),
    "something is learnt while calls come and go":
        ("	if (!known->certain)\n		known->bytes = guess;", "	known->bytes = guess;"),
    "nothing is learnt at rest":
        ("if (still && !now->under_way) {", "if (still && !now->under_way && !process->known.certain) {"),
    "the knowledge about a call that goes on is taken for certain":
        ("		sum->moved |= !process->known.certain;\n		sum->guessed |= !process->known.certain;\n", ""),
    "less is believed at once of a process that has pools":
        ("loose && known->certain ? larger(seen, known->latest) : seen", "seen"),
    "less is never believed of a process that has pools":
        ("larger(seen, known->latest)", "larger(seen, known->bytes)"),
    "what has lost its maker counts for others only after a rest":
        ("	learn_ownerless(&process->known, unmatched - by_sum);\n", ""),
    "what a dead maker exported counts for the dead":
        ("if (has && share_kind(word) == SHARE_EXPORT &&", "if (share_kind(word) == SHARE_EXPORT &&"),
    "what a maker has freed still counts for it":
        ("if (has && share_kind(word) == SHARE_EXPORT &&", "if (has &&"),
    "what is charged and not taken shows that there is less overhead":
        ("now->held - now->surplus", "now->held"),
    "what is just being opened counts for nobody":
        ("bytes ? bytes : regions->bytes[at]", "bytes"),
}


def fails(source, model, old, new, folder, *more):
    text = source.read_text()
    assert text.count(old) == 1, "the source has changed: change this list too"
    (folder / source.name).write_text(text.replace(old, new))
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-I", ROOT / "src", "-o",
                    folder / "model", ROOT / "tests/unit" / model, folder / source.name, *more, "-lcmocka"], check=True)
    done = subprocess.run([folder / "model"], capture_output=True, text=True, timeout=170)
    assert done.returncode != 0
    assert "not ok" in done.stdout + done.stderr or "FAILED" in done.stdout + done.stderr


@pytest.mark.plain    # compiles by itself what it runs
@pytest.mark.long(20)
@pytest.mark.parametrize("name", OVERHEAD_MUTATIONS)
def test_the_model_check_of_samples_notices_that(name, tmp_path):
    fails(OVERHEAD, "test-overhead-model.c", *OVERHEAD_MUTATIONS[name], tmp_path,
          *(ROOT / "src/grant" / f"{part}.c" for part in ("peek", "usage", "files", "owner", "share")))


@pytest.mark.plain
@pytest.mark.long(20)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_model_check_notices_that(name, tmp_path):
    fails(SOURCE, "test-reserve-model.c", *MUTATIONS[name], tmp_path)


def stress(mode, rounds, seed=1):
    return subprocess.run([BUILD / "tests/component/reserve-stress", mode, str(rounds), str(seed)], capture_output=True,
                          text=True, timeout=170)


def test_two_processes_ask_60_percent_each_at_the_same_time_10000_rounds_never_both_never_neither():
    done = stress("pair", 10000)
    assert done.returncode == 0, done.stdout
    assert done.stdout == "10000 rounds: one of two, each time\n"


@pytest.mark.waits
@pytest.mark.once
def test_the_sum_is_right_again_after_each_kill_1000_rounds(seed):
    """At every step of the protocol, by the process itself, and at any instruction, from outside."""
    done = stress("kill", 1000, seed)
    assert done.returncode == 0, f"{done.args}: {done.stdout}"
    assert "1000 rounds" in done.stdout
