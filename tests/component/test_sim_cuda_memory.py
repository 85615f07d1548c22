"""The simulated libcuda.so.1 by ctypes: memory apart from addresses, shared, managed, of the host (driver_cases_memory.py)."""
from driver_cases_memory import *  # noqa: F401,F403 (the tests)
