"""Programs of other projects on the simulated driver (driver_cases_clients.py)."""
import pytest

from driver_cases_clients import *  # noqa: F401,F403 (the tests)

pytestmark = pytest.mark.plain    # clients in Python bring libraries that do not bear the sanitizer
