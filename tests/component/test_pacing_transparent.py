"""While computing power is controlled the shim is noticed by the clock only: the simulated driver's own tests of streams,
events, captures, graphs and copies pass through it with a whole card, counted, and so do those of other people's clients."""
import pytest

import shim_through
from driver_cases_clients import *  # noqa: F401,F403 (the tests)
from driver_cases_work import *  # noqa: F401,F403 (the tests)

# test_shim_sanitized.py is the same with sanitizers.
pytestmark = [pytest.mark.plain, pytest.mark.usefixtures("through_the_shim", "counted_power")]

for name in shim_through.DIFFERENT_THROUGH_THE_SHIM + shim_through.DIFFERENT_WHERE_POWER_IS_COUNTED:
    globals().pop(name, None)    # the tests of memory are not among these
