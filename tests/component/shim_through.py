"""A grant of whole cards, by which the tests of the simulated driver pass through the shim."""
import json
import os
import pathlib
import subprocess

import grants
from driver_tree import BUILD
from shim_programs import LOADED_SHIM

# The tests for which the shim makes a difference, and why that is meant.
DIFFERENT_THROUGH_THE_SHIM = (
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
    "test_own_pool_keeps_to_its_maximum")

# The same, where computing power is counted, too (counted_power in conftest.py).
DIFFERENT_WHERE_POWER_IS_COUNTED = (
    # It counts uses of a destroyed stream: the shim has asked one too, in which context it is.
    "test_stream_destroyed_and_used_is_an_error_and_counted",
    # It launches 50 s of work ahead: under control that takes as long as the work but for 30 ms.
    "test_killed_process_leaves_the_card_to_others")


class Grant:
    """Of all cards of a tree, whole, with a keeper; `path` is a folder in which the shim is where the driver would be."""

    def __init__(self, tree):
        ticks = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
        self.folder = tree.path.parent / f"{os.getpid()}.{ticks}"    # a run of this process, for the keeper
        self.path = tree.path.parent / "through"
        self.folder.mkdir()
        (self.path / "lib").mkdir(parents=True)
        for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (self.path / "lib" / library).symlink_to(LOADED_SHIM / library)
        cards = [(card["uuid"], "", card["memoryMiB"] << 20, card["memoryMiB"] << 20)
                 for card in json.loads((tree.path / "gpus.json").read_text())["gpus"]]
        grants.write(self.folder, tree.path / "lib/libcuda.so.1", tree.path / "lib/libnvidia-ml.so.1", cards)
        self.keeper = subprocess.Popen([BUILD / "src/run/ration-run", "keeper", self.folder,
                                        tree.path / "lib/libnvidia-ml.so.1"], stdout=subprocess.PIPE)
        assert self.keeper.stdout.readline() == b"ready\n"
