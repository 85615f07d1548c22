"""The limit under hostile programs: tests/campaign, a few rounds, or with `./check full` a quarter of an hour of them."""
import datetime
import os
import pathlib
import subprocess

import pytest

from agent_fixture import BUILD

CAMPAIGN = pathlib.Path(__file__).resolve().parents[1] / "campaign" / "campaign"
SEEDS = [1, 3, 14, 44]    # the last two stay 64 MiB below their limit, and must not be refused

pytestmark = [pytest.mark.alone, pytest.mark.waits, pytest.mark.once,
              pytest.mark.skipif(os.geteuid() != 0 or os.path.exists("/run/ration/grant"), reason="runs mount, which needs root")]


def campaign(*arguments, timeout=300):
    done = subprocess.run([CAMPAIGN, "--build", BUILD, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", [*(pytest.param(seed, marks=pytest.mark.long(5)) for seed in SEEDS), int(datetime.date.today().strftime("%Y%m%d"))])
def test_no_run_leaves_its_limit(seed):
    campaign("--seed", seed, "--rounds", 1, "--seconds", 1.5)


def test_no_container_leaves_its_limit():
    campaign("--containers", "--seed", 1, "--rounds", 1, "--seconds", 1.5)


@pytest.mark.full
@pytest.mark.alone    # it judges for how many milliseconds a container is above its limit
def test_rounds_for_a_quarter_of_an_hour():
    campaign("--seed", 1000, "--minutes", 15, timeout=1500)
