"""Fixtures of the driver suite: NVIDIA's real libraries, or the reason why they are not here; the simulated driver."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "component"))    # its helpers
import nvidia_libraries    # noqa: E402
from driver_tree import temporary_tree    # noqa: E402
from run_machine import temporary_machine    # noqa: E402
from shim_memory import granted_cards    # noqa: E402

BUILD = pathlib.Path(os.environ["RATION_BUILD"])


@pytest.fixture(scope="session", params=list(nvidia_libraries.DRIVERS))
def driver(request):
    """Each of the drivers that Debian has."""
    try:
        return nvidia_libraries.driver(request.param)
    except nvidia_libraries.Unreachable as error:
        pytest.skip(f"driver {request.param}: {error}")


@pytest.fixture(scope="session")
def wheel():
    """wheel(package, version): the folder of a package of PyPI."""
    def fetch(package, version):
        try:
            return nvidia_libraries.wheel(package, version)
        except nvidia_libraries.Unreachable as error:
            pytest.skip(f"{package} {version}: {error}")
    return fetch


@pytest.fixture(scope="session")
def site():
    """site(name, packages): a folder for PYTHONPATH."""
    def fetch(name, packages):
        try:
            return nvidia_libraries.site(name, packages)
        except nvidia_libraries.Unreachable as error:
            pytest.skip(f"{name}: {error}")
    return fetch


@pytest.fixture
def tree(tmp_path):
    """The folder of a simulated driver; tree.up() makes it."""
    with temporary_tree(tmp_path) as tree:
        yield tree


@pytest.fixture
def granted(tree, tmp_path):
    """Two simulated GPUs of 16160 MiB with 2154 MiB and 1024 MiB granted."""
    return granted_cards(tree, tmp_path)


@pytest.fixture
def machine():
    """A machine for `ration run`."""
    with temporary_machine() as made:
        yield made
