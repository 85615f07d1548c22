"""The simulated libcuda.so.1 by ctypes: streams, kernels that take time, graphs, pools (driver_cases_work.py)."""
from driver_cases_work import *  # noqa: F401,F403 (the tests)
