"""A container keeps to its share of a card's time: the shim on the simulated card, which stretches pairs of events by what
others do in between. The share is written into the grant as a keeper writes it; what was used is what was finished."""
import struct
import time

import pytest

import grants
from shim_memory import _granted  # noqa: F401 (fixture)
from sim_cuda import KERNELS, finish
from test_sim import RATION_SIM, run, tree  # noqa: F401 (fixture)

WHOLE = 1_000_000
PERCENT = WHOLE // 100

WORK = KERNELS + r"""
IMAGE = b'{"rationSimModule": 1, "functions": {"us2": {"us": 2}, "us200": {"us": 200}, "ms1": {"us": 1000}, ' \
        b'"ms5": {"us": 5000}, "ms50": {"us": 50000}, "grid": {"us": 0, "usPerBlock": 10}}}'

def kernel(name):
    return load(name, IMAGE)

def spin(seconds, one, each_us, batch=10, stream=None):
    # Share of a card that was finished in that time, with at most `batch` under way.
    begin, done = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        for i in range(batch): one()
        ok(cu.cuStreamSynchronize(stream)); done += batch
    return done * each_us * 1e-6 / (time.monotonic() - begin)
"""


@pytest.fixture(name="share")
def _share(granted):
    def set_share(percent, card=0):
        grants.set_core(granted.grant, card, round(percent * PERCENT))
    granted.share = set_share
    return granted


def usage(granted, card=0):
    """core_started_ns, core_waited_ns, core_asked, and what was started of copies to and from the card."""
    data = (granted.folder / "usage").read_bytes()[128 + card * 128:][:128]
    started, to_card, from_card, waited, asked = struct.unpack_from("<QQQQQ", data, 56)
    return started, waited, asked, (to_card, from_card)


@pytest.mark.parametrize("name, us, batch", [("us200", 200, 10), ("ms5", 5000, 2), ("ms50", 50000, 1), ("us2", 2, 200)])
def test_a_lone_container_has_its_share_and_no_more(share, name, us, batch):
    share.share(30)
    out = share.script(WORK, f"""
        f = kernel(b"{name}")
        spin(1, lambda: ok(launch(f)), {us}, {batch})
        say(spin(3, lambda: ok(launch(f)), {us}, {batch}))
        """)
    assert 0.28 <= float(out) <= 0.32
    started, waited, asked, _ = usage(share)
    assert 0.25 * 4e9 < started < 0.36 * 4e9 and waited > 1e9 and asked > 100


def test_without_a_share_nothing_is_counted_and_nobody_waits(share):
    out = share.script(WORK, """
        f = kernel(b"us200")
        say(spin(1, lambda: ok(launch(f)), 200))
        """)
    assert float(out) > 0.8
    assert usage(share) == (0, 0, 0, (0, 0))


def test_a_whole_card_is_counted_and_never_waited_for(share):
    share.share(100)
    out = share.script(WORK, """
        f = kernel(b"us200")
        say(spin(2, lambda: ok(launch(f)), 200))
        """)
    started, waited, asked, _ = usage(share)
    assert float(out) > 0.85 and waited == 0
    assert float(out) * 2e9 * 0.95 < started < float(out) * 2e9 * 1.05 and asked > 100
