"""What `ration run` mounts: nothing that a program can write or run with other rights, nothing of the machine but the
driver's two libraries. And how what a run leaves behind is removed."""
import os
import subprocess

import pytest

from run_machine import RATION, as_nobody, as_root
from run_programs import LIMIT, WHOLE, answer

pytestmark = pytest.mark.skipif(os.path.exists("/run/ration/grant"), reason="this machine has a grant")

MOUNTS = "cat /proc/self/mountinfo; echo; ls -R \"$(dirname $RATION_GRANT)\""


def mounts_of(text):
    """Path and options of each mount, from mountinfo."""
    return {line.split()[4]: set(line.split()[5].split(",")) for line in text.splitlines() if " - " in line}


def snapshot(folder):
    return {p.relative_to(folder): (s.st_mode, s.st_ino, s.st_size, s.st_mtime_ns)
            for p in sorted(folder.rglob("*")) for s in [p.lstat()]}


# Mounts of other tests come and go on the machine: the run and what it is compared with have a mount namespace to
# themselves.
APART = ["unshare", "-m", "--propagation", "private"] if os.geteuid() == 0 else []
BEFORE_AND_INSIDE = "cat /proc/self/mountinfo; echo in the run; exec \"$@\""


@pytest.mark.parametrize("user", [as_root, as_nobody])
def test_what_a_run_mounts_is_read_only(machine, user):
    """Its usage file excepted, in which its programs enter what they hold."""
    done = user(machine, "sh", "-c", BEFORE_AND_INSIDE, "sh",
                *machine.command("sh", "-c", MOUNTS, args=["--layer", "mount"]), within=APART)
    assert done.returncode == 0, done.stderr
    before, inside = map(mounts_of, done.stdout.split("in the run\n"))
    made = {path: options for path, options in inside.items() if path not in before}
    assert len([path for path in made if "libcuda.so" in path]) >= 2    # the shim over the driver, the driver
    for path, options in made.items():
        assert {"nosuid", "nodev"} <= options, (path, options)
        assert ("ro" in options) == (path != "/run/ration/usage"), (path, options)


def test_a_run_shows_of_the_machine_only_the_drivers_two_libraries(machine):
    done = machine.run("sh", "-c", "cd $(dirname $RATION_GRANT) && find . -type f | sort", args=["--layer", "mount"])
    assert done.stdout.split() == ["./cards", "./grant", "./host-cuda/libcuda.so", "./host-nvml/libnvidia-ml.so",
                                   "./power", "./usage"]


@pytest.mark.parametrize("user", [as_root, as_nobody])
@pytest.mark.parametrize("what", ["$(dirname $RATION_GRANT)", "/run/ration/*"])
def test_who_removes_the_runs_folder_inside_leaves_the_driver_as_it_was(machine, user, what):
    before = snapshot(machine.tree.path / "lib")
    done = user(machine, *machine.command("sh", "-c", f"rm -rf {what} 2>&1; echo done", args=["--layer", "mount"]))
    assert done.stdout.endswith("done\n"), done.stderr
    assert snapshot(machine.tree.path / "lib") == before


@pytest.mark.parametrize("name", ["host-cuda/libcuda.so", "host-nvml/libnvidia-ml.so"])
def test_the_drivers_library_cannot_be_written_through_the_run(machine, name):
    before = (machine.lib / "libcuda.so.1").read_bytes()
    done = machine.run("sh", "-c", f"echo x >> $(dirname $RATION_GRANT)/{name}; echo $?", args=["--layer", "mount"])
    assert "Read-only file system" in done.stderr and done.stdout != "0\n"
    assert (machine.lib / "libcuda.so.1").read_bytes() == before


# A driver on a file system whose options a user namespace may not take away (mount_namespaces(7)).
LOCKED = """
mount --bind {tree} {tree}
mount -o remount,bind,ro,nosuid,nodev,noatime {tree}
mount --bind {tree}.state {tree}/state
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"""


def test_options_that_are_locked_stay(machine):
    tree = machine.tree.path
    subprocess.run(["cp", "-a", tree / "state", f"{tree}.state"], check=True)
    done = subprocess.run(["unshare", "-m", "sh", "-ec", LOCKED.format(tree=tree), "sh",
                           *machine.command("sh", "-c", MOUNTS, args=["--layer", "mount"])],
                          env=machine.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = next(options for path, options in mounts_of(done.stdout).items() if path.endswith("host-cuda/libcuda.so"))
    assert {"ro", "nosuid", "nodev", "noatime"} <= library


# --- ways that stay open to root ---

@pytest.mark.plain    # a sanitized driver cannot be loaded in most of these ways
@pytest.mark.parametrize("mount,expected", [("--bind", WHOLE), ("--rbind", LIMIT)])
def test_root_who_mounts_the_drivers_folder_again(machine, programs, mount, expected):
    """SECURITY.md: a plain bind mount leaves out what lies over the library; one with all that is below it does not."""
    other = machine.runs.parent / "other"
    other.mkdir()
    script = f"mount {mount} {machine.lib} {other} && exec {programs('load')} dlopen {other}/libcuda.so.1"
    assert answer(machine, "mount", "unshare", "-m", "sh", "-c", script,
                  env={"RATION_SIM_DIR": str(machine.tree.path)}) == expected


@pytest.mark.plain    # a sanitized driver cannot be loaded in most of these ways
def test_a_user_cannot_mount_the_drivers_folder_without_what_lies_over_it(machine, programs):
    """Mounts of a namespace with more rights are one tree (mount_namespaces(7)): a part of it is EINVAL."""
    other = machine.runs.parent / "other"
    other.mkdir()
    script = f"mount --bind {machine.lib} {other} || mount --rbind {machine.lib} {other}; " \
             f"umount {machine.lib}/libcuda.so.*.*; exec {programs('load')} dlopen {other}/libcuda.so.1"
    done = as_nobody(machine, *machine.command("unshare", "-Urm", "sh", "-c", script, args=["--layer", "mount"]))
    assert done.stdout.strip() == LIMIT and done.stderr.count("\n") >= 2, done.stderr


# --- what is left behind ---

def dead(machine):
    """The folder of a run whose processes have ended, as its owner may have changed it."""
    machine.leaves_folders = True
    folder = machine.runs / "999999999.1"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", ["lib", "host-cuda", "host-nvml"])
def test_who_removes_a_dead_run_follows_no_link_out_of_it(machine, name, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    for file in ("precious", "libcuda.so.1", "libcuda.so", "libnvidia-ml.so"):
        (victim / file).write_text("")
    (dead(machine) / name).symlink_to(victim)
    machine.ps()
    assert len(list(victim.iterdir())) == 4


def test_who_removes_a_dead_run_removes_nothing_else(machine):
    """A folder that its owner has filled stays, and is no run."""
    folder = dead(machine)
    (folder / "lib").mkdir()
    (folder / "lib/precious").write_text("")
    (folder / "lib/libcuda.so.1").symlink_to("/nonexistent")
    assert machine.ps().startswith("No program runs")
    assert sorted(p.name for p in (folder / "lib").iterdir()) == ["precious"]


def test_a_dead_run_that_is_a_link_is_not_followed(machine, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    for file in ("grant", "usage", "cards", "power"):
        (victim / file).write_text("")
    machine.runs.chmod(0o700)    # else the kernel may refuse the link itself (fs.protected_symlinks)
    machine.leaves_folders = True
    (machine.runs / "999999999.1").symlink_to(victim)
    machine.ps()
    assert len(list(victim.iterdir())) == 4


def beside_a_run_with_a_pipe(machine, name, *command):
    """The result of a command beside a run of which this file is a pipe."""
    process = machine.start("sh", "-c", "echo ready; exec sleep 60")
    assert process.stdout.readline() == "ready\n"
    folder = machine.runs / machine.folders()[0]
    (folder / name).unlink()
    os.mkfifo(folder / name)
    done = subprocess.run([folder if word == "FOLDER" else word for word in command], env=machine.env, capture_output=True, text=True,
                          timeout=5)
    process.kill()
    process.wait()
    return done


@pytest.mark.parametrize("name", ["grant", "usage", "cards", "power"])
def test_a_pipe_in_a_runs_folder_stops_nobody(machine, name):
    assert beside_a_run_with_a_pipe(machine, name, RATION, "ps").returncode == 0


@pytest.mark.parametrize("name", ["grant", "usage"])
def test_a_keeper_that_finds_a_pipe_says_so_and_ends(machine, name):
    """A program that replaces a file of its run as soon as it starts comes too late: it starts when the keeper has them open."""
    done = beside_a_run_with_a_pipe(machine, name, RATION.parent.parent / "run/ration-run", "keeper", "FOLDER",
                                    machine.lib / "libnvidia-ml.so.1")
    assert (done.returncode, done.stdout.count("\n")) == (1, 1) and "ready" not in done.stdout
