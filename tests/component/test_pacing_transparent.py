"""While computing power is controlled the shim is noticed by the clock only: the simulated driver's own tests of streams,
events, captures, graphs and copies pass through it with a whole card, counted, and so do those of other people's clients."""
import pytest

import grants
import test_shim_transparent as transparent
from test_shim_transparent import pytestmark, through_the_shim, tree  # noqa: F401 (fixtures)
from test_sim_cuda import card, two_cards  # noqa: F401 (fixtures)
from test_sim_cuda_clients import *  # noqa: F401,F403 (the tests)
from test_sim_cuda_work import *  # noqa: F401,F403

# Where the shim by itself differs, and why, is said there.
for name in [name for name in globals() if name.startswith("test_") and not hasattr(transparent, name)]:
    del globals()[name]
for name in (
        # It counts uses of a destroyed stream: the shim has asked one too, in which context it is.
        "test_stream_destroyed_and_used_is_an_error_and_counted",
        # It launches 50 s of work ahead: under control that takes as long as the work but for 30 ms.
        "test_killed_process_leaves_the_card_to_others"):
    del globals()[name]


@pytest.fixture(autouse=True)
def whole_cards(monkeypatch, through_the_shim):    # noqa: F811
    class Counted(transparent.Grant):
        def __init__(self, tree):    # noqa: F811
            super().__init__(tree)
            for index in range(8):
                grants.set_core(self.folder / "grant", index, grants.CORE_WHOLE)

    monkeypatch.setattr(transparent, "Grant", Counted)
