"""PyTorch under ration run: the CUDA runtime asks the driver for what no simulated one has, so only on a card."""
import pathlib
import subprocess

import pytest

import table
from card import MIB
from test_cost import by_turns

SCRIPT = pathlib.Path(__file__).with_name("torch_probe.py")
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


@pytest.fixture(scope="module")
def torch(asked, card):
    """How to start the script."""
    if asked.simulated:
        pytest.skip("PyTorch needs a real card: the CUDA runtime does not start on a simulated driver")
    ready = "import torch; torch.zeros(1, device='cuda')"
    done = subprocess.run([asked.python, "-c", ready], env=card.plain_environment(), capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        pytest.skip(f"{asked.python} has no PyTorch that works with this card (--python names another): "
                    f"{(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return [asked.python, str(SCRIPT)]


@pytest.fixture(scope="module")
def run_mib(card):
    return min(4096, card.memory_mib() // 2)


def test_it_sees_a_card_of_the_limits_size(torch, card, run_mib):
    sizes = card.limited(f"{run_mib}MiB", *torch, "sizes")
    assert sizes["total"] == sizes["properties"] == run_mib * MIB and sizes["free"] <= sizes["total"]


@pytest.mark.parametrize("allocator", ["native", "expandable", "async"])
def test_over_the_limit_is_its_own_out_of_memory_error_and_it_goes_on(torch, card, run_mib, allocator):
    env = {"native": {}, "expandable": EXPANDABLE, "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}}
    said = card.limited(f"{run_mib}MiB", *torch, "fill", "64", env=env[allocator])
    table.add("PyTorch until its OutOfMemoryError (MiB)", allocator=allocator, limit=run_mib,
              allocated=said["allocated"] // MIB)
    assert said["exception"] == "OutOfMemoryError" and said["again"] and said["sum"] == 64 * MIB / 4
    assert run_mib // 2 * MIB < said["allocated"] <= run_mib * MIB


def test_a_neighbour_trains_on(torch, card, run_mib):
    with card.start(f"{run_mib}MiB", *torch, "train", "200") as neighbour:
        while neighbour.poll() is None:
            assert card.limited(f"{run_mib}MiB", *torch, "fill", "64")["exception"] == "OutOfMemoryError"
        assert neighbour.returncode == 0, neighbour.stderr.read()


def test_a_training_step(torch, card):
    without, within, added = by_turns(card, "step_ms", *torch, "train", "100")
    table.add("A training step in PyTorch (ms, median of 5 by turns)", without=f"{without:.3f}", within=f"{within:.3f}",
              added=f"{added:.3f}", share=f"{added / without:.2%}")
    assert added < without * 0.2
