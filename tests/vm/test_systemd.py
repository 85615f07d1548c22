"""ration on a host as most are: systemd is the first process, cgroups are version 2. A virtual machine that is emulated: it
is some ten times slower than this machine, so nothing here judges a time."""
import json
import sys

import pytest

import disks
from machine import SLOWER, Machine, lacking

sys.path.insert(0, str(disks.ROOT / "tests/cluster"))
from gpuprogram import OUT_OF_MEMORY, argv    # noqa: E402

pytestmark = pytest.mark.full

BUILD = disks.paths.product_build()
IN_MACHINE = f"{disks.PRODUCT}{BUILD}"    # where everybody may read it, as the same place below /root is not
TREE = "/var/tmp/tree"


@pytest.fixture(scope="module")
def machine():
    if why := lacking():
        pytest.skip(why)
    with Machine() as made:
        yield made


@pytest.fixture(scope="module")
def driver(machine):
    """The folder of a simulated driver with one GPU of 16160 MiB, which everybody may use."""
    machine.run(f"{IN_MACHINE}/sim/ration-sim", "up", TREE, "--gpus", "1x16160MiB")
    return f"{TREE}/lib"


def test_the_machine_is_a_host_with_systemd_and_cgroup_v2(machine):
    assert machine.run("cat", "/proc/1/comm").stdout == "systemd\n"
    assert machine.run("stat", "-f", "-c", "%T", "/sys/fs/cgroup").stdout == "cgroup2fs\n"
    assert machine.run("systemctl", "is-system-running", "--wait", check=False).stdout == "running\n"


def test_a_command_has_the_user_the_status_and_the_time_that_were_asked_for(machine):
    assert machine.run("id", "-un", user=disks.PERSON).stdout == f"{disks.PERSON}\n"
    assert machine.run("sh", "-c", "echo $A; exit 3", env={"A": "b"}, check=False).returncode == 3
    assert machine.run("sleep", "100", timeout=1, check=False).returncode == -9


@pytest.mark.parametrize("user, layer", [("root", "mount namespace"), (disks.PERSON, "mount namespace in a user namespace")])
def test_ration_run_holds_a_program_to_its_memory(machine, driver, user, layer):
    def says(*program):
        return machine.run(f"{IN_MACHINE}/src/cli/ration", "run", "--mem", "2154MiB", "--driver", driver, *program, user=user).stdout
    assert f"ration run: layer: {layer}\n" in says("-v", "--", "true")
    assert json.loads(says("--", *argv("info")))["total"] == 2154
    assert json.loads(says("--", *argv("take", 2155))) == {"result": OUT_OF_MEMORY}
    assert json.loads(says("--", *argv("take", 1700))) == {"result": 0}    # a context takes some 300
    assert 2154 / 2 < json.loads(says("--", *argv("fill")))["taken"] <= 2154


def test_the_demo_runs_two_documented_jobs_on_one_gpu(machine):
    """Of 3 and 4 units; its two nodes have 16 and 2 x 15. The machine has no network: what the demo would install and compile is there
    already, and these two steps do nothing."""
    machine.run("sh", "-c", 'cd "$0" && mount --bind /bin/true lab/install-packages && mkdir -p deploy && ln -s /bin/true deploy/build-installed', disks.ROOT)
    try:
        said = machine.run("sh", "-c", 'cd "$0" && ./demo', disks.ROOT, timeout=3600).stdout
    finally:
        machine.run("sh", "-c", 'cd "$0" && ./demo down', disks.ROOT)
    assert "7/46 (15%)" in said and "NVIDIA-SMI" in said, said


@pytest.mark.parametrize("cgroup_driver", ["cgroupfs", "systemd"])
def test_a_cluster_holds_its_pods_to_their_limits(machine, cgroup_driver):
    """tests/cluster/test_any_host.py, in a lab with the kubelet and containerd under this driver."""
    done = machine.run("python3", "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "--durations=0",
                       disks.ROOT / "tests/cluster/test_any_host.py", timeout=7200, check=False,
                       env={"RATION_PATIENCE": str(SLOWER), "RATION_LAB_OPTIONS": f"--cgroup-driver {cgroup_driver}",
                            "PYTHONDONTWRITEBYTECODE": "1"})
    print(done.stdout)
    assert done.returncode == 0 and " passed" in done.stdout and " skipped" not in done.stdout, "see above"
