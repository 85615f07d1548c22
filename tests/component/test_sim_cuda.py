"""The simulated libcuda.so.1 by ctypes: start, cards, contexts, linear memory (driver_cases.py)."""
from driver_cases import *  # noqa: F401,F403 (the tests)
