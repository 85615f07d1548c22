"""With a grant of the whole card the shim is not noticed: the tests of the simulated driver itself pass through it."""
import json
import os
import pathlib
import subprocess

import pytest

import cuda_clients
import grants
import sim_cuda
import test_sim_cuda
from test_sim import BUILD, Tree, tree  # noqa: F401 (fixture)
from test_sim_cuda import *  # noqa: F401,F403 (the tests)
from test_sim_cuda_clients import *  # noqa: F401,F403
from test_sim_cuda_memory import *  # noqa: F401,F403
from test_sim_cuda_work import *  # noqa: F401,F403

pytestmark = pytest.mark.plain    # the shim is not sanitized, and a sanitizer must be loaded first

# Where it differs, and why that is meant.
for name in (
        # It compares with the exported entries; what is not hooked is handed out as the driver's own.
        "test_lookup_gives_the_version_that_was_asked_for",
        # It counts questions about a destroyed context: the shim has asked one too.
        "test_context_destroyed_while_another_thread_uses_it_says_so",
        # Memory that no argument shows (code, what others exported) is in the next answer but one: the keeper finds it.
        "test_module_takes_memory_and_its_names_are_found",
        "test_shared_by_descriptor_is_one_memory_charged_once",
        "test_memory_outlives_its_exporter_until_the_importer_closes",
        "test_external_memory_is_the_memory_of_its_descriptor",
        # What a pool gives back is seen at the next synchronisation or refusal.
        "test_own_pool_keeps_to_its_maximum"):
    del globals()[name]

start_plain, environment_plain = sim_cuda.start, cuda_clients.environment


class Grant:
    """Of all cards of a tree, whole, with a keeper; `path` is a folder in which the shim is where the driver would be."""

    def __init__(self, tree):    # noqa: F811
        ticks = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
        self.folder = tree.path.parent / f"{os.getpid()}.{ticks}"    # a run of this process, for the keeper
        self.path = tree.path.parent / "through"
        self.folder.mkdir()
        (self.path / "lib").mkdir(parents=True)
        for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (self.path / "lib" / library).symlink_to(BUILD / "src/shim" / library)
        cards = [(card["uuid"], "", card["memoryMiB"] << 20, card["memoryMiB"] << 20)
                 for card in json.loads((tree.path / "gpus.json").read_text())["gpus"]]
        grants.write(self.folder, tree.path / "lib/libcuda.so.1", tree.path / "lib/libnvidia-ml.so.1", cards)
        self.keeper = subprocess.Popen([BUILD / "src/run/ration-run", "keeper", self.folder,
                                        tree.path / "lib/libnvidia-ml.so.1"])


@pytest.fixture(autouse=True)
def through_the_shim(monkeypatch):
    made = {}

    def grant_of(path):
        if path not in made:
            made[path] = Grant(Tree(path))
        return made[path]

    def start(tree, script, *args, **env):    # noqa: F811
        grant = grant_of(tree.path)
        return start_plain(grant, script, *args, RATION_GRANT=str(grant.folder / "grant"), **env)

    def environment(folder, **more):
        grant = grant_of(folder.parent)
        return environment_plain(grant.path / "lib", RATION_GRANT=str(grant.folder / "grant"), **more)

    monkeypatch.setattr(cuda_clients, "environment", environment)
    monkeypatch.setattr(sim_cuda, "start", start)
    monkeypatch.setattr(test_sim_cuda, "start", start)
    yield
    for grant in made.values():
        grant.keeper.kill()
        grant.keeper.wait()
