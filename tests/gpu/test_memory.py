"""The limit on the memory of a card, as C programs meet it."""
import json
import re
import signal

import pytest

import table
from card import MIB, Card

PIECE_MIB = 16
CURVE = [(512, 4096), (1024, 10000), (4096, 4096), (65535, 512), (65536, 512), (65537, 512), (1 << 20, 64),
         ((1 << 20) + 1, 32), (2 * MIB - 1, 32), (2 * MIB, 32), (2 * MIB + 1, 16), (3 * MIB, 16), (4 * MIB + 1, 8),
         (16 * MIB, 4)]


def test_every_query_says_the_same(asked, card, part_mib):
    for mem, mib in ((f"{part_mib}MiB", part_mib), ("2GiB", 2048), ("25%", card.memory_mib() // 4)):
        sizes = card.limited(mem, *card.probe("sizes"))
        smi = card.limited_process(mem, [asked.nvidia_smi()])
        used, total = map(int, re.search(r"(\d+)MiB / +(\d+)MiB", smi.stdout).groups())
        row = {"--mem": mem, **{k: sizes[k] / MIB for k in ("cuMemGetInfo", "cuDeviceTotalMem", "nvml_v1", "nvml_v2")
                                if k in sizes}, "nvidia-smi": float(total)}
        table.add("Size of the card in a run (MiB)", **row)
        assert set(list(row.values())[1:]) == {float(mib)}, row
        assert sizes["nvml_v1_free"] == sizes["cuMemGetInfo_free"] <= mib * MIB and used <= total


@pytest.mark.parametrize("way", ["linear", "managed", "pitch", "async", "virtual", "array"])
def test_over_the_limit_is_out_of_memory_and_after_a_free_the_program_goes_on(card, part_mib, way):
    context = card.limited(f"{part_mib}MiB", *card.probe("sizes"))
    filled = card.limited(f"{part_mib}MiB", *card.probe("fill", PIECE_MIB, way))
    overhead = part_mib - context["cuMemGetInfo_free"] // MIB
    table.add("Allocated until it failed (MiB)", way=way, limit=part_mib, piece=PIECE_MIB, context=overhead,
              allocated=filled["allocated"] // MIB)
    assert (filled["refusal"], filled["again"]) == (2, 0)    # CUDA_ERROR_OUT_OF_MEMORY, then CUDA_SUCCESS
    assert filled["allocated"] <= part_mib * MIB
    # The driver may have charged the context after `sizes` looked, and need more of it for a program that works.
    assert filled["allocated"] >= (part_mib - overhead - 512 - PIECE_MIB) * MIB


def test_the_driver_itself_never_has_more_in_use_for_a_run_than_its_limit(card, filled_mib):
    """As another process sees it. Nobody else may use the card meanwhile."""
    before = card.plain(*card.probe("sizes"))["cuMemGetInfo_free"]
    free = card.limited(f"{filled_mib}MiB", *card.probe("sizes"))["cuMemGetInfo_free"] // MIB
    with card.start(f"{filled_mib}MiB", *card.probe("hold", free - 64)) as holder:
        assert json.loads(holder.stdout.readline())["held"] == (free - 64) * MIB
        taken = before - card.plain(*card.probe("sizes"))["cuMemGetInfo_free"]
        assert finish(holder) == {"wrong": 0}
    table.add("Taken of the card by a run that fills its limit (MiB, by the driver)", limit=filled_mib, held=free - 64,
              taken=taken // MIB)
    assert (free - 64) * MIB <= taken <= filled_mib * MIB


def finish(process):
    out, err = process.communicate("\n", timeout=120)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def test_a_neighbour_keeps_its_memory_when_others_run_out_of_theirs_or_are_killed(card, filled_mib):
    mem = f"{filled_mib}MiB"
    with card.start(mem, *card.probe("hold", filled_mib // 4)) as neighbour:
        assert json.loads(neighbour.stdout.readline())["held"] == filled_mib // 4 * MIB
        first = card.limited(mem, *card.probe("fill", PIECE_MIB))
        with card.start(mem, *card.probe("hold", filled_mib // 3)) as killed:
            killed.stdout.readline()
            killed.send_signal(signal.SIGKILL)
            assert killed.wait(30) == -signal.SIGKILL
        again = card.limited(mem, *card.probe("fill", PIECE_MIB))
        assert first["refusal"] == again["refusal"] == 2 and first["again"] == again["again"] == 0
        assert abs(first["allocated"] - again["allocated"]) <= PIECE_MIB * MIB
        assert finish(neighbour) == {"wrong": 0}


def test_small_allocations_are_charged_as_the_driver_takes_them(card):
    """The curve that the charging table stands on. A difference is a fact about the card: the table has to follow."""
    differ = []
    for size, count in CURVE:
        taken = card.plain(*Card.probe("curve", size, count))
        charged = card.limited("50%", *Card.probe("curve", size, count))
        table.add("What allocations take of the card (bytes each, by cuMemGetInfo)", bytes=size, count=count,
                  taken=f"{taken['taken'] / count:.0f}", charged=f"{charged['taken'] / count:.0f}",
                  not_given_back=taken["left"])
        if taken["taken"] != charged["taken"]:
            differ.append((size, count, taken["taken"], charged["taken"]))
        assert charged["left"] == 0
    assert not differ, f"(bytes, count, taken, charged): {differ}"
