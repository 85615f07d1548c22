"""While computing power is controlled the shim is noticed by the clock only: the simulated driver's own tests of streams,
events, captures, graphs and copies pass through it with a whole card, counted, and so do those of other people's clients."""
import pytest

import grants
import shim_through
from driver_cases_clients import *  # noqa: F401,F403 (the tests)
from driver_cases_work import *  # noqa: F401,F403 (the tests)

# The shim is not sanitized, and a sanitizer must be loaded first.
pytestmark = [pytest.mark.plain, pytest.mark.usefixtures("through_the_shim")]

for name in shim_through.DIFFERENT_THROUGH_THE_SHIM:
    globals().pop(name, None)    # the tests of memory are not among these
for name in (
        # It counts uses of a destroyed stream: the shim has asked one too, in which context it is.
        "test_stream_destroyed_and_used_is_an_error_and_counted",
        # It launches 50 s of work ahead: under control that takes as long as the work but for 30 ms.
        "test_killed_process_leaves_the_card_to_others"):
    del globals()[name]


@pytest.fixture(autouse=True)
def whole_cards(monkeypatch):
    class Counted(shim_through.Grant):
        def __init__(self, tree):
            super().__init__(tree)
            for index in range(8):
                grants.set_core(self.folder / "grant", index, grants.CORE_WHOLE)

    monkeypatch.setattr(shim_through, "Grant", Counted)
