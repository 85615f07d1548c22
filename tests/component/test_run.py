"""`ration run` and `ration ps` with real programs on a simulated driver."""
import concurrent.futures
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from driver_tree import BUILD, Tree, run as run_checked
from run_machine import CUDA, LAYERS, RATION, as_nobody, keeper_of, needs_no_grant_here

pytestmark = needs_no_grant_here


# --- what the program sees ---

@pytest.mark.parametrize("card,units,of,mib", [(16160, 2, 15, 2154), (15079, 3, 14, 3231), (16130, 4, 15, 4301)])
def test_the_documents_numbers(machine, card, units, of, mib):
    """floor(16160 x 2 / 15) = 2154 (the documents' sample), 15079 x 3 / 14 = 3231, 16130 x 4 / 15 = 4301."""
    assert card * units // of == mib
    other = Tree(machine.runs.parent / "other")
    other.up("--gpus", f"1x{card}MiB")
    machine.lib = other.path / "lib"
    table = machine.run(other.path / "bin/nvidia-smi", mem=f"{mib}MiB").stdout
    total = machine.python("t = c_size_t()\ncuda.cuInit(0), cuda.cuDeviceTotalMem_v2(byref(t), 0)\nprint(t.value >> 20)",
                           mem=f"{mib}MiB").stdout
    run_checked(BUILD / "sim/ration-sim", "down", other.path, check=False)
    assert f"0MiB / {mib:5}MiB" in table and total == f"{mib}\n"


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("mem,mib", [("2154MiB", 2154), ("2GiB", 2048), ("25%", 4040), ("100%", 16160), ("1%", 161),
                                     ("1MiB", 1)])
def test_the_card_has_the_size_that_was_asked_for_in_every_query(machine, layer, mem, mib):
    """16160 MiB x 25 / 100 = 4040; 16160 / 100 = 161.6, rounded down."""
    args = ["--layer", layer]
    code = """
        total = c_size_t()
        cuda.cuInit(0), cuda.cuDeviceTotalMem_v2(byref(total), 0)
        ml, h = CDLL("libnvidia-ml.so.1"), c_void_p()
        m1, m2 = (c_ulonglong * 3)(), (c_ulonglong * 5)(0x02000028)
        assert ml.nvmlInit_v2() == ml.nvmlDeviceGetHandleByIndex_v2(0, byref(h)) == 0
        assert ml.nvmlDeviceGetMemoryInfo(h, m1) == ml.nvmlDeviceGetMemoryInfo_v2(h, m2) == 0
        print(total.value, m1[0], m2[1])
        """
    done = machine.python(code, mem=mem, args=args)
    assert done.stdout.split() == [str(mib << 20)] * 3, done.stderr
    table = machine.run(machine.tree.path / "bin/nvidia-smi", mem=mem, args=args).stdout
    assert re.findall(r"(\d+)MiB / +(\d+)MiB", table) == [("0", str(mib))]


@pytest.mark.parametrize("layer", LAYERS)
def test_what_a_context_takes_is_counted_within_100_ms(machine, layer):
    done = machine.python("""
        context()
        started = time.monotonic()
        while memory()[0] == memory()[1]:
            assert time.monotonic() - started < 2
        print(time.monotonic() - started, memory()[1] - memory()[0])
        """, args=["--layer", layer])
    seconds, taken = done.stdout.split() or pytest.fail(done.stderr)
    assert float(seconds) < 0.1 and int(taken) > 0


@pytest.mark.parametrize("layer", LAYERS)
def test_the_card_that_was_named_is_the_only_one(machine, layer):
    code = """
        n, name = c_int(), create_string_buffer(16)
        assert cuda.cuInit(0) == cuda.cuDeviceGetCount(byref(n)) == cuda.cuDeviceGetUuid(name, 0) == 0
        print(n.value, name.raw.hex())
        """
    for gpu in ("0", "1", machine.tree.uuids()[1]):
        uuid = machine.tree.uuids()[int(gpu) if len(gpu) == 1 else 1]
        done = machine.python(code, args=["--layer", layer, "--gpu", gpu])
        assert done.stdout.split() == ["1", uuid.removeprefix("GPU-").replace("-", "")], done.stderr
    both = machine.python("""
        n, first, second = c_int(), create_string_buffer(16), create_string_buffer(16)
        assert cuda.cuInit(0) == cuda.cuDeviceGetCount(byref(n)) == 0
        assert cuda.cuDeviceGetUuid(first, 0) == cuda.cuDeviceGetUuid(second, 1) == 0
        print(n.value, first.raw.hex(), second.raw.hex())
        """, args=["--layer", layer, "--gpu", "1,0"])
    uuids = [uuid.removeprefix("GPU-").replace("-", "") for uuid in machine.tree.uuids()]
    assert both.stdout.split() == ["2", uuids[1], uuids[0]], both.stderr
    listed = machine.run(machine.tree.path / "bin/nvidia-smi", "-L", args=["--layer", layer, "--gpu", "1,0"]).stdout
    assert re.findall(r"UUID: ([\w-]+)", listed) == machine.tree.uuids()[::-1]


# --- the program is what was started ---

@pytest.mark.parametrize("layer", LAYERS)
def test_the_program_has_everything_that_the_caller_gave_it(machine, layer, tmp_path):
    """Pid, parent, arguments, descriptors, folder, standard streams, signals, limits: as without ration."""
    code = """
        import os, sys, signal, resource
        fds = sorted(int(f) for f in os.listdir("/proc/self/fd"))[:-1]
        status = [l for l in open("/proc/self/status") if l.startswith(("SigB", "SigI", "SigC", "PPid"))]
        print(os.getppid(), sys.argv[1:], fds, os.getcwd(), sys.stdin.read(), status, os.umask(0), os.getpgrp(),
              resource.getrlimit(resource.RLIMIT_CORE), sorted(k for k in os.environ if k not in KNOWN))
        """.replace("KNOWN", "('RATION_GRANT', 'LD_LIBRARY_PATH', 'LD_PRELOAD', 'CUDA_VISIBLE_DEVICES')")
    program = [sys.executable, "-c", textwrap.dedent(code), "a b", "--mem", "", "*"]

    def plain(command):
        return subprocess.run(command, env=machine.env, cwd=tmp_path, input="text", capture_output=True, text=True,
                              umask=0o27).stdout

    without, within = plain(program), plain(machine.command(*program, args=["--layer", layer]))
    assert without and re.sub(r" \d+ \(", " (", without) == re.sub(r" \d+ \(", " (", within)


@pytest.mark.parametrize("status", [0, 1, 2, 125, 126, 127, 255])
def test_the_status_is_the_programs(machine, status):
    assert machine.run("sh", "-c", f"exit {status}").returncode == status


def test_a_signal_reaches_the_program_and_ends_it_as_without_ration(machine):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1):
        process = machine.start("sh", "-c", "echo ready; exec sleep 30")
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(5) == -number
        shell = subprocess.run(["sh", "-c", '"$@"; echo $?', "sh", *machine.command("sh", "-c", f"kill -{number} $$")],
                               env=machine.env, capture_output=True, text=True)
        assert shell.stdout == f"{128 + number}\n"
    assert machine.becomes_empty()


def test_a_program_can_catch_its_signals(machine):
    process = machine.start("sh", "-c", "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done")
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.communicate(timeout=5)[0] == "caught\n" and process.returncode == 7


def test_a_program_that_cannot_be_started(machine, tmp_path):
    (tmp_path / "text").write_text("text")
    missing, refused = machine.run("/no/such/program"), machine.run(tmp_path / "text")
    assert (missing.returncode, refused.returncode) == (127, 126)
    assert missing.stderr == "ration run: /no/such/program: No such file or directory\n"
    assert refused.stderr == f"ration run: {tmp_path}/text: Permission denied\n"
    assert machine.becomes_empty()


def test_the_program_has_no_child_that_it_did_not_make(machine):
    code = "import os\ntry:\n    os.waitpid(-1, 0)\nexcept ChildProcessError:\n    print('none')"
    assert machine.run(sys.executable, "-c", code).stdout == "none\n"


def test_a_pipe_ends_with_the_program(machine):
    """The keeper holds no end of it."""
    started = time.monotonic()
    assert machine.run("true", stdin=subprocess.DEVNULL).stdout == "" and time.monotonic() - started < 3


class Terminal:
    """A shell with job control on a terminal of its own."""

    def __init__(self, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noediting", "-i"], env | {"PS1": "$ ", "TERM": "dumb"})
        self.text = ""

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait(self, pattern, seconds=10):
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.text)):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"no {pattern} in {self.text!r}"
            self.text += os.read(self.fd, 4096).decode(errors="replace")
        self.text = self.text[match.end():]
        return match

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def test_job_control_of_a_terminal_works(machine):
    """Stopped by ^Z, listed, continued in the foreground, ended by ^C with status 130."""
    terminal = Terminal(machine.env)
    try:
        command = " ".join(machine.command("sh", "-c", "'echo re\"\"ady; exec sleep 30'"))
        terminal.send(command + "\n")
        terminal.wait("ready")
        terminal.send("\x1a")
        terminal.wait("Stopped")
        terminal.send("jobs; fg\n")
        terminal.wait(r"\[1\]\+ +Stopped.*\n")
        time.sleep(0.3)
        terminal.send("\x03")
        terminal.wait(r"\$ ")
        terminal.send("echo status=$?\n")
        assert terminal.wait(r"status=(\d+)").group(1) == "130"
    finally:
        terminal.close()


# --- several runs ---

def test_runs_share_a_card_until_it_is_full(machine):
    """60 % and 60 % do not fit, 60 % and 40 % do; on the other card there is room; what ended has given back."""
    first = machine.start("sh", "-c", "echo ready; exec sleep 60", mem="60%")
    assert first.stdout.readline() == "ready\n"
    refused = machine.run("true", mem="60%")
    assert refused.returncode == 125
    # 16160 x 60 / 100 = 9696, of which the rest is 6464
    assert refused.stderr == ("ration run: GPU 0 has 6464 of its 16160 MiB left: 1 other run has the rest (`ration ps` "
                              "lists them)\n")
    assert machine.run("true", mem="40%").returncode == 0
    assert machine.run("true", mem="60%", args=["--gpu", "1"]).returncode == 0
    assert machine.run("true", mem="60%", args=["--gpu", "1,0"]).returncode == 125
    first.kill()
    first.wait()
    assert machine.run("true", mem="100%").returncode == 0


def test_runs_that_start_at_the_same_time_never_get_more_than_the_card(machine):
    """Eight times 30 %: three run."""
    processes = [machine.start("sh", "-c", "read line", mem="30%", stdin=subprocess.PIPE) for _ in range(8)]
    deadline = time.monotonic() + 20
    while len([p for p in processes if p.poll() is None]) > 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    states = [p.poll() for p in processes]
    for process in processes:
        process.communicate("\n")
    assert sorted(states, key=str) == [125] * 5 + [None] * 3


@pytest.mark.parametrize("victim", ["program", "keeper", "both"])
def test_after_a_kill_nothing_is_left_of_a_run(machine, victim):
    process = machine.start("sh", "-c", "echo ready; exec sleep 60", mem="100%")
    assert process.stdout.readline() == "ready\n"
    keeper = keeper_of(machine)
    assert machine.run("true").returncode == 125
    if victim != "program":
        os.kill(keeper, signal.SIGKILL)
    if victim == "keeper":
        assert machine.run("true").returncode == 125    # the program still runs
    process.kill()
    process.wait()
    assert machine.run("true", mem="100%").returncode == 0
    assert machine.becomes_empty()


def test_a_run_ends_though_its_keeper_recovered_what_a_killed_process_held(machine):
    """For that the keeper takes part in the usage file itself."""
    done = machine.python("""
        import signal
        read, write = os.pipe()
        if os.fork() == 0:
            context()
            p = c_ulonglong()
            assert cuda.cuMemAlloc_v2(byref(p), c_size_t(1000 << 20)) == 0
            os.write(write, b"x")
            time.sleep(60)
        pid = os.read(read, 1) and int(open(f"/proc/self/task/{os.getpid()}/children").read().split()[0])
        os.kill(pid, signal.SIGKILL)
        os.wait()
        time.sleep(1.5)    # the keeper looks every second
        """)
    assert done.returncode == 0, done.stderr
    assert machine.becomes_empty()


def test_a_daemon_that_the_program_left_behind_keeps_its_grant(machine):
    """It counts against the card as long as it lives, with the overhead of its context, though the program ended."""
    code = """
        if os.fork() == 0:
            os.setsid()
            context()
            print(os.getpid(), flush=True)
            os.close(1), os.close(2)
            time.sleep(60)
        time.sleep(1)
        """
    done = machine.python(code, mem="80%")
    daemon = int(done.stdout)
    try:
        time.sleep(0.3)
        assert machine.run("true", mem="30%").returncode == 125
        assert "12928MiB" in machine.ps()    # 16160 x 80 / 100
    finally:
        os.kill(daemon, signal.SIGKILL)
    assert machine.becomes_empty()
    assert machine.run("true", mem="100%").returncode == 0


# --- ps ---

def test_ps_lists_the_runs(machine):
    assert machine.ps() == "No program runs under a grant of `ration run`.\n"
    process = machine.start("sh", "-c", "echo ready; exec sleep 60", mem="2GiB", args=["--gpu", "0,1"])
    assert process.stdout.readline() == "ready\n"
    rows = [line.split(None, 6) for line in machine.ps().splitlines()]
    process.kill()
    process.wait()
    assert rows == [["PID", "USER", "GPU", "GRANTED", "USED", "CORE", "PROGRAM"],
                    [str(process.pid), "root", "0", "2048MiB", "0MiB", "-", "sh -c echo ready; exec sleep 60"],
                    [str(process.pid), "root", "1", "2048MiB", "0MiB", "-"]]


def test_ps_prints_nothing_that_commands_a_terminal(machine):
    process = machine.start("sh", "-c", "echo ready; exec sleep 60 # \x1b[2J\x07")
    assert process.stdout.readline() == "ready\n"
    text = machine.ps()
    process.kill()
    process.wait()
    assert "\x1b" not in text and "\x07" not in text and "?[2J?" in text


def test_garbage_in_the_registry_harms_nobody(machine):
    machine.leaves_folders = True
    (machine.runs / "file").write_text("x")
    (machine.runs / "999999999.1").mkdir()
    (machine.runs / "999999999.1/grant").write_text("rubbish")
    (machine.runs / f"{os.getpid()}.1").mkdir()    # the pid lives, but is another process
    (machine.runs / "1.x").mkdir()
    (machine.runs / "link").symlink_to("/etc")
    assert machine.run("true", mem="100%").returncode == 0
    assert machine.becomes_empty() or machine.folders() == ["1.x", "file", "link"]


def test_a_place_that_others_control_is_refused(machine, tmp_path):
    """A link could lead anywhere; where anybody may remove what others have, runs could be made to be forgotten."""
    (tmp_path / "link").symlink_to(machine.runs)
    (tmp_path / "file").write_text("")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name, text in (("link", "cannot be the folder for the grants of runs: Not a directory"),
                       ("file", "cannot be the folder for the grants of runs: Not a directory"),
                       ("open", ": any user can remove the files of other users in it: remove this folder, or chmod +t")):
        for command in (machine.command("true"), [RATION, "ps"]):
            done = subprocess.run(command, env=machine.env | {"RATION_RUNS": str(tmp_path / name)}, text=True,
                                  capture_output=True)
            assert done.returncode in (1, 125) and text in done.stderr and str(tmp_path / name) in done.stderr


def test_without_a_place_for_runs_nothing_starts(machine, tmp_path):
    done = machine.run("echo", "started", env={"RATION_RUNS": str(tmp_path / "not" / "there")})
    assert done.returncode == 125 and not done.stdout
    assert f"neither {tmp_path}/not/there nor {tmp_path}/not/there can be written" in done.stderr


@pytest.mark.parametrize("options", ["nr_inodes=1", "size=4k"])
def test_a_run_that_finds_no_room_for_its_grant_does_not_start(machine, options):
    """On a file system that holds no folder, and on one that holds no file."""
    script = 'mount -t tmpfs -o "$1" ration "$2" && shift 2 && "$@"; status=$?; ls -A "$RATION_RUNS" >&2; exit $status'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", options, machine.runs,
                           *machine.command("echo", "started")], env=machine.env, capture_output=True, text=True)
    assert done.returncode == 125 and not done.stdout, done.stderr
    told, = done.stderr.splitlines()    # no file that ls would show is left
    assert told.startswith(f"ration run: {machine.runs}/new-") and told.endswith(": No space left on device")


@pytest.mark.waits    # 10 s
def test_a_run_that_waits_for_another_ones_start_says_so(machine):
    holder = os.open(machine.runs, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    done = machine.run("echo", "started")
    os.close(holder)
    assert done.returncode == 125 and not done.stdout
    assert done.stderr == (f"ration run: {machine.runs}: another run has been starting for 10 s (fuser {machine.runs} tells "
                           "which)\n")
    assert machine.run("true").returncode == 0


# --- errors ---


@pytest.mark.parametrize("args", [[], ["stop"], ["sample", "more"], ["keeper"]])
def test_ration_run_alone_says_what_it_is_for(args):
    done = subprocess.run([BUILD / "src/run/ration-run", *args], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (125, "", "Usage: ration run ... or ration ps\n")

@pytest.mark.parametrize("args,text", [
    (["--mem", "2G"], "2G: an amount of memory is a whole number with a unit: 2GiB, 2154MiB or 25%"),
    (["--mem", "2"], "2: an amount of memory is a whole number with a unit: 2GiB, 2154MiB or 25%"),
    (["--mem", "-1MiB"], "-1MiB: an amount of memory is a whole number with a unit: 2GiB, 2154MiB or 25%"),
    (["--mem", "1.5GiB"], "1.5GiB: an amount of memory is a whole number with a unit: 2GiB, 2154MiB or 25%"),
    (["--mem", ""], ": an amount of memory is a whole number with a unit: 2GiB, 2154MiB or 25%"),
    (["--mem", "0MiB"], "0MiB: that is less than 1 MiB"),
    (["--mem", "0%"], "0%: that is less than 1 MiB"),
    (["--mem", "16161MiB"], "16161MiB: the GPU has 16160 MiB"),
    (["--mem", "101%"], "101%: the GPU has 16160 MiB"),
    (["--mem", "99999999999999999999999GiB"], "99999999999999999999999GiB: the GPU has 16160 MiB"),
    (["--mem", "1GiB", "--gpu", "2"], "there is no GPU 2: nvidia-smi -L lists them"),
    (["--mem", "1GiB", "--gpu", "GPU-none"], "there is no GPU GPU-none: nvidia-smi -L lists them"),
    (["--mem", "1GiB", "--gpu", ""], "there is no GPU : nvidia-smi -L lists them"),
    (["--mem", "1GiB", "--gpu", "0,0"], "GPU 0 is named twice"),
])
def test_what_is_wrong_is_said_in_a_sentence(machine, args, text):
    done = subprocess.run([RATION, "run", "--driver", machine.lib, *args, "true"], env=machine.env, text=True,
                          capture_output=True)
    assert (done.returncode, done.stderr) == (125, f"ration run: {text}\n")
    assert machine.folders() == []


@pytest.mark.parametrize("args", [[], ["true"], ["--mem", "1GiB"], ["--mem", "1GiB", "--"], ["--nonsense"],
                                  ["--mem", "1GiB", "--layer", "magic", "true"]])
def test_wrong_arguments_get_the_way_to_help(machine, args):
    done = subprocess.run([RATION, "run", *args], env=machine.env, capture_output=True, text=True)
    assert done.returncode == 125 and "\nTry 'ration run --help'" in done.stderr


def test_help_is_no_error():
    for command in ("run", "ps"):
        done = subprocess.run([RATION, command, "--help"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith(f"Usage: ration {command}") and not done.stderr


def test_a_folder_without_a_driver_is_said_to_be_one(machine, tmp_path):
    done = machine.run("true", args=["--driver", tmp_path])
    assert done.returncode == 125
    assert done.stderr == (f"ration run: {tmp_path}/libcuda.so.1: No such file or directory: this is not the folder of a "
                           "driver's libraries\n")


def test_a_run_is_not_divided_further(machine):
    done = machine.run(*machine.command("true", mem="1GiB"))
    assert done.returncode == 125
    assert done.stderr == "ration run: this shell runs under a grant already: a run cannot be divided further\n"


def test_the_layer_is_said(machine):
    for layer, name in (("mount", "mount namespace"), ("preload", "preload")):
        lines = machine.run("true", args=["-v", "--layer", layer]).stderr.splitlines()
        assert lines == ["ration run: GPU 0, Tesla V100-SXM2-16GB: 2154 of 16160 MiB", f"ration run: layer: {name}"]
    assert machine.run("true").stderr == ""


def test_an_installation_finds_its_parts(machine, tmp_path):
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", tmp_path], check=True, capture_output=True)
    ration = next(tmp_path.rglob("bin/ration"))
    command = [str(ration)] + machine.command(machine.tree.path / "bin/nvidia-smi")[1:]
    done = subprocess.run(command, env=machine.env, capture_output=True, text=True)
    assert "0MiB /  2154MiB" in done.stdout, done.stderr
    shutil.rmtree(ration.parent.parent / "lib/ration/shim")
    done = subprocess.run(command, env=machine.env, capture_output=True, text=True)
    assert done.returncode == 125 and "ration's libcuda.so.1 is not in" in done.stderr
    (ration.parent.parent / "lib/ration/ration-run").unlink()
    done = subprocess.run(command, env=machine.env, capture_output=True, text=True)
    assert done.returncode == 125 and "`ration run` needs ration-run in" in done.stderr


# --- without root ---


def test_without_root_the_mounts_are_in_a_user_namespace(machine):
    done = as_nobody(machine, *machine.command("id", "-u", args=["-v"]))
    if "preload" in done.stderr:
        pytest.skip("user namespaces are not allowed here")
    assert (done.stdout, done.returncode) == ("65534\n", 0)
    assert "layer: mount namespace in a user namespace" in done.stderr
    table = as_nobody(machine, *machine.command(machine.tree.path / "bin/nvidia-smi")).stdout
    assert re.findall(r"(\d+)MiB / +(\d+)MiB", table) == [("0", "2154")]
    assert machine.becomes_empty()


def test_where_nothing_may_be_mounted_the_program_is_preloaded_and_that_is_said(machine):
    """Seen by a process without the capability, in a namespace that allows no more namespaces."""
    limit = "/proc/sys/user/max_user_namespaces"
    script = f"echo 0 > {limit}; exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \"$@\""
    done = subprocess.run(["unshare", "-U", "-r", "sh", "-c", script.replace("--reuid=65534 --regid=65534 "
                                                                             "--clear-groups ", "--inh-caps=-all "),
                           "sh", *machine.command("true", args=["-v"])], env=machine.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "layer: preload" in done.stderr and "limited by preloading only" in done.stderr


def test_where_nothing_may_be_mounted_a_run_that_insists_on_it_does_not_start(machine):
    script = "echo 0 > /proc/sys/user/max_mnt_namespaces; exec \"$@\""
    done = subprocess.run(["unshare", "-U", "-r", "sh", "-c", script, "sh",
                           *machine.command("echo", "started", args=["--layer", "mount"])],
                          env=machine.env, capture_output=True, text=True)
    assert done.returncode == 125 and not done.stdout, done.stderr
    # namespaces(7): ENOSPC
    assert done.stderr == "ration run: a mount namespace is refused here: No space left on device\n"


def test_users_share_a_card_too(machine):
    """Another user's run counts, and its used memory is its own business."""
    process = machine.start("sh", "-c", "echo ready; exec sleep 60", mem="80%")
    assert process.stdout.readline() == "ready\n"
    done = as_nobody(machine, *machine.command("true", mem="30%"))
    listed = as_nobody(machine, RATION, "ps").stdout
    process.kill()
    process.wait()
    assert done.returncode == 125 and "1 other run has the rest" in done.stderr
    assert str(process.pid) in listed
    assert as_nobody(machine, *machine.command("true", mem="30%")).returncode == 0


def test_a_run_of_another_user_counts_as_long_as_its_daemon_lives(machine):
    """Though its usage file is closed to others: here root's run with a file made so."""
    process = machine.start("sh", "-c", "echo ready; exec sleep 60", mem="80%")
    assert process.stdout.readline() == "ready\n"
    folder = machine.runs / machine.folders()[0]
    os.kill(keeper_of(machine), signal.SIGKILL)    # root's, it would see that nobody lives
    (folder / "usage").chmod(0o600)
    folder.rename(machine.runs / "999999999.1")    # as if its first process had ended
    done = as_nobody(machine, *machine.command("true", mem="30%"))
    process.kill()
    process.wait()
    assert done.returncode == 125
    assert machine.run("true", mem="100%").returncode == 0    # root sees that nobody lives


def test_a_machine_full_of_driver_libraries_is_refused(machine):
    for i in range(64):
        (machine.lib / f"libcuda.so.9{i}").symlink_to("libcuda.so.1")
    done = machine.run("true")
    assert done.returncode == 125
    assert done.stderr == "ration run: more than 64 files on this machine look like the driver's library\n"


def test_many_runs_one_after_the_other_leave_nothing(machine):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: machine.run("true", mem="1%").returncode, range(24))) == {0}
    assert machine.becomes_empty()


# --- the limit ---

@pytest.mark.parametrize("layer", LAYERS)
def test_over_the_limit_a_program_is_refused_and_goes_on_and_its_neighbour_sees_nothing(machine, layer):
    """Seen by the driver itself, contexts included, the run never has more than its 2154 MiB, and gets at least what is
    left of them when its context is there."""
    neighbour = machine.start(sys.executable, "-u", "-c", textwrap.dedent(CUDA) + textwrap.dedent("""
        context()
        p = c_ulonglong()
        assert cuda.cuMemAlloc_v2(byref(p), c_size_t(1024 << 20)) == 0
        print(memory(), flush=True)
        sys.stdin.readline()
        print(memory(), cuda.cuMemFree_v2(p), flush=True)
        """), mem="4GiB", args=["--layer", layer], stdin=subprocess.PIPE)
    before = neighbour.stdout.readline().strip()
    done = machine.python("""
        context()
        pieces, p = [], c_ulonglong()
        while (r := cuda.cuMemAlloc_v2(byref(p), c_size_t(64 << 20))) == 0:
            pieces.append(p.value)
        assert r == 2 and cuda.cuMemAlloc_v2(byref(p), c_size_t(64 << 20)) == 2, r
        free, total = memory()
        assert total == 2154 << 20 and free < 64 << 20
        assert cuda.cuMemAlloc_v2(byref(p), c_size_t(1 << 20)) == 0
        for piece in pieces[:3]:
            assert cuda.cuMemFree_v2(c_ulonglong(piece)) == 0
        assert [cuda.cuMemAlloc_v2(byref(p), c_size_t(64 << 20)) for _ in range(4)] == [0, 0, 0, 2]
        print(os.getpid(), len(pieces), flush=True)
        sys.stdin.readline()
        """, args=["--layer", layer], input="\n")
    pid, pieces = map(int, done.stdout.split() or pytest.fail(done.stderr))
    assert neighbour.communicate("\n")[0].split(")")[0] in before
    context = int(re.search(r"(\d+)MiB", machine_overhead(machine)).group(1))
    assert pieces == (2154 - context) // 64 and pid


def machine_overhead(machine):
    """What a context alone takes, as nvidia-smi shows it to a run that has nothing else."""
    return machine.python(f"""
        context()
        os.system("{machine.tree.path}/bin/nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits")
        """).stdout.strip() + "MiB"


@pytest.mark.parametrize("layer", LAYERS)
def test_what_a_program_had_before_exec_is_given_back(machine, layer):
    """The pid and its start stay the same. Seen by itself, and by another process of the run."""
    again = textwrap.dedent(CUDA) + textwrap.dedent("""
        context()
        print(memory()[1] - memory()[0] < 1000 << 20, flush=True)
        """)
    done = machine.python(f"""
        context()
        p = c_ulonglong()
        assert cuda.cuMemAlloc_v2(byref(p), c_size_t(1000 << 20)) == 0
        read, write = os.pipe()
        if os.fork() == 0:
            os.read(read, 1), time.sleep(0.2)
            os.execv(sys.executable, [sys.executable, "-c", {again!r}])
        os.execv(sys.executable, [sys.executable, "-c", {again!r} + '''
        os.write({{}}, b"x")
        os.wait()
        '''.replace(" " * 8, "").format(write)]) if not os.set_inheritable(write, True) else None
        """, args=["--layer", layer])
    assert done.stdout == "True\nTrue\n", done.stderr
