"""With a grant of the whole card the shim is not noticed: the tests of the simulated driver itself pass through it."""
import pytest

from driver_cases import *  # noqa: F401,F403 (the tests)
from driver_cases_clients import *  # noqa: F401,F403 (the tests)
from driver_cases_memory import *  # noqa: F401,F403 (the tests)
from driver_cases_work import *  # noqa: F401,F403 (the tests)
from shim_through import DIFFERENT_THROUGH_THE_SHIM

# test_shim_sanitized.py is the same with sanitizers.
pytestmark = [pytest.mark.plain, pytest.mark.usefixtures("through_the_shim")]

for name in DIFFERENT_THROUGH_THE_SHIM:
    del globals()[name]
