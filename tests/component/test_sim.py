"""The simulated driver: trees made by the real ration-sim, read by the real nvidia-smi."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time

import pytest

from driver_tree import BUILD, NEWEST, RATION_SIM, SYMBOLS, Tree, run

# seeds 1, "Verify the configuration", without the date line.
DOCUMENTED_TABLE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 515.105.01   Driver Version: 515.105.01   CUDA Version: 11.7     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:00:09.0 Off |                    0 |
| N/A   35C    P0    59W / 300W |    334MiB / 16384MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
+-----------------------------------------------------------------------------+
"""


# nvidia-smi

def test_table_is_the_documented_one_character_by_character(tree):
    tree.up_file({"gpus": [{"memoryMiB": 16384, "idleUsedMiB": 334, "temperatureC": 35, "powerW": 59}]})
    assert tree.table() == DOCUMENTED_TABLE


def test_table_begins_with_the_date_as_the_documents_show_it(tree):
    tree.up("--gpus", "16384MiB")
    assert re.fullmatch(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}",
                        tree.smi().stdout.split("\n")[0])


def test_table_of_another_driver_version_keeps_its_columns(tree):
    """seeds 4 shows 450.102.04 with CUDA 11.0."""
    tree.up("--gpus", "16160MiB", "--driver-version", "450.102.04")
    assert "| NVIDIA-SMI 450.102.04   Driver Version: 450.102.04   CUDA Version: 11.0     |\n" in tree.table()


def test_table_shows_the_denominator_right_aligned(tree):
    """seeds 4: `|    337MiB /  2154MiB |     30%      Default |`."""
    tree.up_file({"gpus": [{"memoryMiB": 2154, "idleUsedMiB": 337, "utilizationPercent": 30}]})
    assert "|    337MiB /  2154MiB |     30%      Default |\n" in tree.table()


def test_table_has_a_rule_between_cards_and_every_line_has_its_width(tree):
    tree.up("--gpus", "1x16160MiB+1x40960MiB+1x143771MiB")
    lines = tree.table().split("\n")
    rule = "+-------------------------------+----------------------+----------------------+"
    assert [i for i, line in enumerate(lines) if line == rule] == [10, 14, 18]
    assert {len(line) for line in lines if line} == {79}
    assert lines[11] == "|   1  NVIDIA A100-SXM...  On   | 00000000:00:0A.0 Off |                    0 |"
    assert lines[13] == "|                               |                      |             Disabled |"
    assert lines[15] == "|   2  NVIDIA H200         On   | 00000000:00:0B.0 Off |                    0 |"
    assert "|      0MiB / 143771MiB |" not in lines[16]
    assert "|     0MiB / 143771MiB |" in lines[16]


def test_table_shows_who_holds_memory(tree, holders):
    tree.up("--gpus", "2x16160MiB")
    process = holders(tree, 1, 500)
    table = tree.table()
    assert "|      0MiB / 16160MiB |" in table and "|    500MiB / 16160MiB |" in table
    row = table.split("\n")[-3]
    assert len(row) == 79
    assert re.fullmatch(rf"\|    1   N/A  N/A +{process.pid}      C   \S+ +500MiB \|", row)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_read_only_tree_shows_who_holds_memory_too(tree, holders):
    """As an agent has it. A process that ended without giving back holds nothing there either."""
    tree.up("--gpus", "2x16160MiB")
    process, dead = holders(tree, 1, 500), holders(tree, 0, 300)
    dead.kill()
    dead.wait()
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$1"'
    table = run("unshare", "-m", "sh", "-c", script, tree.path, tree.path / "bin/nvidia-smi").stdout
    assert "|      0MiB / 16160MiB |" in table and "|    500MiB / 16160MiB |" in table
    assert re.search(rf"\|    1   N/A  N/A +{process.pid}      C   \S+ +500MiB \|", table)


def test_list_names_cards_and_uuids(tree):
    tree.up("--gpus", "1x16384MiB+1x81559MiB")
    uuids = tree.uuids()
    assert tree.smi("-L").stdout == (f"GPU 0: Tesla V100-SXM2-16GB (UUID: {uuids[0]})\n"
                                     f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {uuids[1]})\n")


def test_query_prints_csv_with_header_and_units(tree):
    tree.up_file({"gpus": [{"memoryMiB": 16384, "idleUsedMiB": 334, "utilizationPercent": 7, "powerW": 59}]})
    out = tree.smi("--query-gpu=index,uuid,name,memory.total,memory.used,memory.free,driver_version,"
                   "utilization.gpu,power.draw,fan.speed,mig.mode.current", "--format=csv").stdout
    assert out == ("index, uuid, name, memory.total [MiB], memory.used [MiB], memory.free [MiB], driver_version, "
                   "utilization.gpu [%], power.draw [W], fan.speed [%], mig.mode.current\n"
                   f"0, {tree.uuids()[0]}, Tesla V100-SXM2-16GB, 16384 MiB, 334 MiB, 16050 MiB, 515.105.01, "
                   "7 %, 59.00 W, [N/A], [N/A]\n")


def test_query_without_header_and_units_is_for_programs(tree):
    tree.up("--gpus", "2x16384MiB")
    out = tree.smi("--query-gpu=index,memory.total", "--format=csv,noheader,nounits").stdout
    assert out == "0, 16384\n1, 16384\n"


def test_query_answers_every_field_it_lists(tree):
    tree.up("--gpus", "40960MiB")
    names = [line.split('"')[1] for line in tree.smi("--help-query-gpu").stdout.splitlines()]
    assert len(names) >= 25
    row = tree.smi(f"--query-gpu={','.join(names)}", "--format=csv,noheader").stdout.strip()
    assert len(row.split(", ")) == len(names)


@pytest.mark.parametrize("args, text", [
    (["--query-gpu=colour", "--format=csv"], 'Field "colour" is not a valid field to query.'),
    (["--query-gpu=index", "--format=xml"], '"--format=" value is invalid'),
    (["--query-gpu=index"], '"--format="'),
    (["--query-gpu=", "--format=csv"], 'Field "" is not a valid field to query.'),
    (["--query-gpu=" + ",".join(["index"] * 100), "--format=csv"], "not a valid field"),
    (["--format=csv"], "Invalid combination"),
    (["-L", "--query-gpu=index", "--format=csv"], "Invalid combination"),
    (["--no-such-option"], "Invalid combination"),
    (["surplus"], "Invalid combination"),
], ids=range(9))
def test_wrong_arguments_are_refused_with_code_2(tree, args, text):
    tree.up("--gpus", "16384MiB")
    done = tree.smi(*args, check=False)
    assert done.returncode == 2 and text in done.stdout


def test_one_card_can_be_chosen_by_index_uuid_or_bus(tree):
    tree.up("--gpus", "3x16384MiB")
    for name in ("2", tree.uuids()[2], "00000000:00:0B.0", "0000:00:0b.0", "00:0B.0"):
        assert tree.smi("-i", name, "--query-gpu=index", "--format=csv,noheader").stdout == "2\n"
    assert tree.smi("-i", "2,0", "--query-gpu=index", "--format=csv,noheader").stdout == "2\n0\n"


@pytest.mark.parametrize("name", ["3", "-1", "x", "", "GPU-0", "99999999999999999999", "00:09.1"])
def test_a_card_that_is_not_there_is_no_device(tree, name):
    tree.up("--gpus", "3x16384MiB")
    done = tree.smi("-i", name, check=False)
    assert done.returncode == 6 and done.stdout == "No devices were found\n"


def test_without_a_driver_the_program_says_what_nvidias_says(tree):
    tree.up("--gpus", "16384MiB")
    (tree.path / "state" / "cards").unlink()
    done = tree.smi(check=False)
    assert done.returncode == 9
    assert done.stdout.startswith("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
                                  "sure that the latest NVIDIA driver is installed and running.\n")


def test_without_the_library_the_program_says_what_nvidias_says(tree):
    tree.up("--gpus", "16384MiB")
    (tree.path / "lib" / "libnvidia-ml.so.1").unlink()
    done = tree.smi(check=False)
    assert done.returncode == 12 and done.stdout.startswith("NVIDIA-SMI couldn't find libnvidia-ml.so library")


def test_without_device_nodes_there_are_no_devices(tree):
    tree.up("--gpus", "16384MiB")
    (tree.path / "dev" / "nvidia0").unlink()
    done = tree.smi(check=False)
    assert done.returncode == 6 and done.stdout == "No devices were found\n"


def test_a_lost_card_is_reported_and_the_others_can_be_asked(tree):
    tree.up("--gpus", "2x16384MiB")
    tree.fault(1, "lost")
    done = tree.smi(check=False)
    assert done.returncode == 15 and "GPU is lost" in done.stdout
    assert tree.smi("-i", "0", "--query-gpu=index", "--format=csv,noheader").stdout == "0\n"
    tree.fault(1, "heal")
    tree.smi()


def test_only_cards_with_a_device_node_are_shown_and_numbered_anew(tree):
    tree.up("--gpus", "4x16384MiB")
    uuids = tree.uuids()
    (tree.path / "dev" / "nvidia0").unlink()
    (tree.path / "dev" / "nvidia2").unlink()
    assert tree.smi("-L").stdout.splitlines() == [f"GPU {i}: Tesla V100-SXM2-16GB (UUID: {uuid})"
                                                  for i, uuid in enumerate([uuids[1], uuids[3]])]


# ration-sim up

def test_up_twice_changes_nothing(tree, holders):
    tree.up("--gpus", "2x16160MiB")
    tree.fault(0, "ecc")
    holders(tree, 1, 100)
    files = {f: (f.stat().st_ino, f.stat().st_mtime_ns) for f in tree.path.rglob("*")
             if f.is_file() and f.name != "mounts.json" and f.parent.name != "state"}
    inode = (tree.path / "state" / "cards").stat().st_ino
    before = tree.table()
    assert "(state kept)" in tree.up("--gpus", "2x16160MiB").stdout
    assert "(state kept)" in tree.up().stdout
    assert tree.table() == before and "|                    1 |" in before and "100MiB" in before
    assert (tree.path / "state" / "cards").stat().st_ino == inode
    assert files == {f: (f.stat().st_ino, f.stat().st_mtime_ns) for f in files}


def test_up_with_other_cards_keeps_the_uuids_of_those_that_stay(tree):
    tree.up("--gpus", "2x16160MiB")
    before = tree.uuids()
    assert "(new state)" in tree.up("--gpus", "1x16160MiB+1x40960MiB+1x16160MiB").stdout
    after = tree.uuids()
    assert after[0] == before[0] and after[1] not in before and after[2] not in before
    assert sorted(f.name for f in (tree.path / "dev").glob("nvidia?")) == ["nvidia0", "nvidia1", "nvidia2"]
    tree.up("--gpus", "1x16160MiB")
    assert tree.uuids() == before[:1]
    assert sorted(f.name for f in (tree.path / "dev").glob("nvidia?")) == ["nvidia0"]


def test_trees_have_different_uuids(tmp_path):
    trees = [Tree(tmp_path / name) for name in "abc"]
    for tree in trees:
        tree.up("--gpus", "4x16160MiB")
    assert len({uuid for tree in trees for uuid in tree.uuids()}) == 12
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in trees[0].uuids())


def test_up_with_another_driver_version_leaves_one_library(tree):
    tree.up("--gpus", "16160MiB")
    tree.up("--driver-version", "535.54.03")
    names = sorted(f.name for f in (tree.path / "lib").iterdir())
    assert names == [f"{lib}.so{end}" for lib in ("libcuda", "libnvidia-ml") for end in ("", ".1", ".535.54.03")]
    assert os.readlink(tree.path / "lib" / "libnvidia-ml.so.1") == "libnvidia-ml.so.535.54.03"
    assert "CUDA Version: 12.2" in tree.table()
    tree.up()
    assert "Driver Version: 535.54.03" in tree.table()


def test_an_edited_gpus_json_counts_after_up(tree):
    tree.up("--gpus", "16384MiB")
    uuids = tree.uuids()
    document = json.loads((tree.path / "gpus.json").read_text())
    document["gpus"][0]["temperatureC"] = 77
    (tree.path / "gpus.json").write_text(json.dumps(document))
    tree.up()
    assert "  77C  " in tree.table() and tree.uuids() == uuids


def test_a_broken_gpus_json_stops_up_and_harms_nothing(tree):
    tree.up("--gpus", "16384MiB")
    table = tree.table()
    (tree.path / "gpus.json").write_text('{"gpus": [')
    for args in ([], ["--gpus", "2x16384MiB"]):
        done = tree.up(*args, check=False)
        assert done.returncode == 1 and "gpus.json" in done.stderr and "not JSON" in done.stderr
    assert (tree.path / "gpus.json").read_text() == '{"gpus": ['
    assert tree.table() == table


@pytest.mark.parametrize("document, text", [
    ({"gpus": []}, "0 GPUs"),
    ({"gpus": [{"memoryMiB": 1}] * 65}, "65 GPUs"),
    ({"gpus": [{"memoryMiB": 0}]}, "memoryMiB"),
    ({"gpus": [{"memoryMiB": 2**63}]}, "memoryMiB"),
    ({"gpus": [{"memoryMiB": "16384"}]}, "memoryMiB"),
    ({"gpus": [{"memoryMiB": 1, "colour": 1}]}, "colour"),
    ({"gpus": [{"memoryMiB": 1, "uuid": "GPU-" + "A" * 10000}]}, "uuid"),
    ({"gpus": [{"memoryMiB": 1, "model": "\x00\x01"}]}, "model"),
    ({"gpus": [{"memoryMiB": 1, "links": [0]}]}, "links"),
    ({"gpus": [{"memoryMiB": 1, "links": ["card"]}]}, "links"),
    ({"gpus": [{"memoryMiB": 1, "links": list(range(100))}]}, "links"),
    ("[" * 10000, "not JSON"),
    ("\x00", "not JSON"),
    ("{\"gpus\":\xff}", "not JSON"),
    (" " * (1024 * 1024 + 1), "larger than"),
], ids=range(15))
def test_a_hostile_gpus_file_is_refused_and_nothing_is_made(tree, document, text):
    done = tree.up_file(document, check=False)
    assert done.returncode == 1 and text in done.stderr, done.stderr
    assert done.stderr.startswith("ration-sim: ") and len(done.stderr) < 600
    assert not tree.path.exists()


@pytest.mark.parametrize("args", [["--gpus", "0x1MiB"], ["--gpus", ""], ["--gpus", "1x16GiB"], ["--gpus", "65x1MiB"],
                                  ["--gpus-file", "/nonexistent"], [],
                                  ["--gpus", "2x1MiB", "--links", "dgx1-v100"], ["--gpus", "8x1MiB", "--links", "nvl72"],
                                  ["--gpus", "1x1MiB", "--driver-version", "../x"]])
def test_up_with_nonsense_fails_with_a_sentence_and_makes_nothing(tree, args):
    done = tree.up(*args, check=False)
    assert done.returncode == 1 and done.stderr.startswith("ration-sim: ")
    assert not tree.path.exists()


@pytest.mark.parametrize("args", [[], ["up"], ["up", "a", "b"], ["up", "--gpus"], ["status"], ["fault", "x"], ["nonsense"],
                                  ["up", "d", "--gpus", "1MiB", "--gpus-file", "f"], ["hold", "x"], ["down"]])
def test_wrong_usage_is_code_2_with_a_hint(args, tmp_path):
    done = run(RATION_SIM, *args, check=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr and not list(tmp_path.iterdir())


def test_help_names_every_command():
    out = run(RATION_SIM, "--help").stdout
    assert all(re.search(rf"^  {name} +\w", out, re.M) for name in ("up", "status", "fault", "set", "usage", "hold", "down"))


def test_eight_ups_at_once_make_one_tree(tree):
    processes = [subprocess.Popen([RATION_SIM, "up", tree.path, "--gpus", "4x16160MiB"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for _ in range(8)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, outputs
    assert sum("(new state)" in out for out in outputs) == 1
    assert len({tuple(re.findall(r"GPU-[0-9a-f-]{36}", out)) for out in outputs}) == 1
    assert not [f for f in tree.path.rglob("*") if ".new" in f.name or ".tmp" in f.name]


def test_mounts_json_is_what_the_agent_expects(tree):
    tree.up("--gpus", "16160MiB")
    assert json.loads((tree.path / "mounts.json").read_text()) == {"mounts": [
        {"source": "gpus.json", "target": "/run/ration-sim/gpus.json", "readOnly": True},
        {"source": "state", "target": "/run/ration-sim/state", "readOnly": False}]}


def test_any_user_of_the_machine_can_use_the_tree_whatever_the_umask(tree):
    run("sh", "-c", 'umask 077; exec "$0" up "$1" --gpus 1x16160MiB', RATION_SIM, tree.path)
    for folder, mode in (("lib", 0o755), ("bin", 0o755), ("dev", 0o755), ("state", 0o1777)):
        assert stat.S_IMODE((tree.path / folder).stat().st_mode) == mode
    for file in ("state/cards", "state/processes", "state/trouble", "state/work", "dev/nvidia0"):
        assert stat.S_IMODE((tree.path / file).stat().st_mode) == 0o666


def test_device_nodes_are_nvidias_where_that_is_allowed(tree):
    out = tree.up("--gpus", "2x16160MiB").stdout
    if "stand-in" in out:
        pytest.skip("mknod is not permitted here")
    for name, minor in (("nvidia0", 0), ("nvidia1", 1), ("nvidiactl", 255)):
        device = (tree.path / "dev" / name).stat()
        assert stat.S_ISCHR(device.st_mode) and (os.major(device.st_rdev), os.minor(device.st_rdev)) == (195, minor)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_without_the_right_to_mknod_files_stand_in_and_it_says_so(tmp_path):
    shutil.copytree(BUILD / "sim", tmp_path / "sim", ignore=shutil.ignore_patterns("*.p"))
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    for folder in [tmp_path, *tmp_path.parents[:-1]]:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)

    def as_nobody(*args):
        return run("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *args)

    for _ in range(2):
        out = as_nobody(tmp_path / "sim" / "ration-sim", "up", home / "tree", "--gpus", "1x16160MiB").stdout
        assert "plain files because mknod is not permitted" in out
    assert stat.S_ISREG((home / "tree" / "dev" / "nvidia0").stat().st_mode)
    assert as_nobody(home / "tree" / "bin" / "nvidia-smi", "-L").stdout.startswith("GPU 0: ")


# ration-sim status, fault, hold, down

def test_status_shows_health_and_processes(tree, holders):
    tree.up("--gpus", "4x16160MiB")
    tree.fault(1, "lost")
    tree.fault(tree.uuids()[2], "xid", 63)
    (tree.path / "dev" / "nvidia3").unlink()
    process = holders(tree, 0, 250)
    out = run(RATION_SIM, "status", tree.path).stdout
    assert re.search(r"^0 .* 16160MiB +250MiB  healthy ", out, re.M)
    assert re.search(r"^1 .* lost ", out, re.M)
    assert re.search(r"^2 .* needs reset ", out, re.M)
    assert re.search(r"^3 .* no device node ", out, re.M)
    assert re.search(rf"^0 +{process.pid} +250MiB$", out, re.M)


@pytest.mark.parametrize("args", [["9", "lost"], ["0", "xid"], ["0", "xid", "0"], ["0", "xid", "1000"], ["0", "xid", "-1"],
                                  ["0", "xid", "79x"], ["0", "lost", "5"], ["0", "burn"], ["x", "lost"], ["-1", "lost"]])
def test_a_fault_that_makes_no_sense_changes_nothing(tree, args):
    tree.up("--gpus", "1x16160MiB")
    before = (tree.path / "state" / "cards").read_bytes()
    done = tree.fault(*args, check=False)
    assert done.returncode == 1 and done.stderr.startswith("ration-sim: ")
    assert (tree.path / "state" / "cards").read_bytes() == before


def test_commands_on_what_is_no_tree_say_so(tmp_path):
    for args in (["status", tmp_path], ["fault", tmp_path, 0, "lost"], ["hold", tmp_path, 0, 1]):
        done = run(RATION_SIM, *args, check=False)
        assert done.returncode == 1 and "ration-sim up" in done.stderr


def test_damaged_state_is_named_and_up_repairs_it(tree):
    tree.up("--gpus", "1x16160MiB")
    uuids = tree.uuids()
    for damage in (b"", b"x" * 100, b"\0" * (tree.path / "state" / "cards").stat().st_size):
        (tree.path / "state" / "cards").write_bytes(damage)
        assert "damaged" in run(RATION_SIM, "status", tree.path, check=False).stderr
        tree.up()
        assert uuids[0] in tree.smi("-L").stdout
    (tree.path / "state" / "processes").write_bytes(b"")
    tree.smi()
    tree.up()
    assert (tree.path / "state" / "processes").stat().st_size > 0


def test_held_memory_ends_with_its_process_however_it_ends(tree, holders):
    tree.up("--gpus", "1x16160MiB")
    for end in (signal.SIGTERM, signal.SIGKILL):
        process = holders(tree, 0, 1000)
        assert "|   1000MiB / 16160MiB |" in tree.table()
        process.send_signal(end)
        process.wait()
        assert "|      0MiB / 16160MiB |" in tree.table()


def test_a_card_does_not_hold_more_than_it_has(tree, holders):
    tree.up_file({"gpus": [{"memoryMiB": 1000, "idleUsedMiB": 100}]})
    holders(tree, 0, 600)
    done = run(RATION_SIM, "hold", tree.path, 0, 301, check=False)
    assert done.returncode == 1 and "300 MiB are free" in done.stderr
    holders(tree, 0, 300)


def test_down_removes_all_and_twice_is_once(tree):
    tree.up("--gpus", "4x16160MiB")
    run(RATION_SIM, "down", tree.path)
    assert not tree.path.exists()
    run(RATION_SIM, "down", tree.path)


def test_down_touches_nothing_that_it_did_not_make(tree, tmp_path):
    (tmp_path / "precious").write_text("x")
    done = run(RATION_SIM, "down", tmp_path, check=False)
    assert done.returncode == 1 and "not a driver tree" in done.stderr
    tree.up("--gpus", "1x16160MiB")
    (tree.path / "lib" / "mine").write_text("x")
    done = run(RATION_SIM, "down", tree.path, check=False)
    assert done.returncode == 1 and "contains other files" in done.stderr
    assert (tree.path / "lib" / "mine").read_text() == "x" and (tmp_path / "precious").exists()
    (tree.path / "lib" / "mine").unlink()
    run(RATION_SIM, "down", tree.path)
    assert not tree.path.exists()


def test_installed_layout_finds_its_parts(tmp_path):
    """ration-sim in PREFIX/bin, the rest in PREFIX/lib/ration/sim."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "ration" / "sim").mkdir(parents=True)
    shutil.copy(RATION_SIM, tmp_path / "bin")
    done = run(tmp_path / "bin" / "ration-sim", "up", tmp_path / "tree", "--gpus", "1x16160MiB", check=False)
    assert done.returncode == 1 and "libnvidia-ml.so.1 is neither in" in done.stderr
    for part in ("libcuda.so.1", "libnvidia-ml.so.1", "nvidia-smi"):
        shutil.copy(BUILD / "sim" / part, tmp_path / "lib" / "ration" / "sim")
    run(tmp_path / "bin" / "ration-sim", "up", tmp_path / "tree", "--gpus", "1x16160MiB")
    run(tmp_path / "tree" / "bin" / "nvidia-smi")


# The library as a file

def test_the_library_exports_exactly_the_drivers_symbols(tree):
    tree.up("--gpus", "1x16160MiB", "--driver-version", NEWEST)
    out = run("nm", "-D", "--defined-only", tree.path / "lib" / "libnvidia-ml.so.1").stdout
    exported = {line.split()[2].split("@")[0] for line in out.splitlines() if line.split()[1] in "TW"}
    assert exported == set(SYMBOLS.read_text().split()) - {"nvmlRetry_NvRmControl"}    # only driver 470 has it
    assert len(exported) == 416


def test_the_library_needs_libc_only(tree):
    tree.up("--gpus", "1x16160MiB")
    out = run("readelf", "-d", tree.path / "lib" / "libnvidia-ml.so.1").stdout
    needed = set(re.findall(r"NEEDED.*\[(.*?)\]", out))
    assert {name for name in needed if not name.startswith(("libasan", "libubsan"))} <= {"libc.so.6", "libm.so.6",
                                                                                        "libgcc_s.so.1"}
    assert "[libnvidia-ml.so.1]" in out


# Containers: another mount, another process namespace

def in_container(tree, tmp_path, cards, script):
    """Runs a shell script where only the given device nodes, the state and the library of a tree can be seen."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace")
    library = tmp_path / "usr-lib"
    shutil.copytree(tree.path / "lib", library, symlinks=True)
    nodes = "".join(f"mknod -m 666 /dev/nvidia{n} c 195 {n} 2>/dev/null || : >/dev/nvidia{n}\n" for n in cards)
    setup = f"""
        set -e
        mount -t tmpfs tmpfs /run
        mkdir -p /run/ration-sim/state /run/tools
        : >/run/ration-sim/gpus.json
        mount --bind {tree.path}/gpus.json /run/ration-sim/gpus.json
        mount --bind {tree.path}/state /run/ration-sim/state
        cp {tree.path}/bin/nvidia-smi /run/tools/
        mount -t tmpfs tmpfs {tree.path}
        mount -t tmpfs tmpfs /dev
        mknod -m 666 /dev/null c 1 3
        {nodes}
        export LD_LIBRARY_PATH={library}
        {script}
    """
    done = run("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", setup, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    return done


def test_a_container_sees_the_cards_whose_nodes_it_has(tree, tmp_path):
    tree.up("--gpus", "4x16160MiB")
    done = in_container(tree, tmp_path, [1, 3], "/run/tools/nvidia-smi -L")
    uuids = tree.uuids()
    assert done.stdout.splitlines() == [f"GPU 0: Tesla V100-SXM2-16GB (UUID: {uuids[1]})",
                                        f"GPU 1: Tesla V100-SXM2-16GB (UUID: {uuids[3]})"], done.stderr
    done = in_container(tree, tmp_path / "again", [], "/run/tools/nvidia-smi -L")
    assert done.returncode == 6


def test_a_container_sees_the_memory_but_not_the_processes_of_others(tree, tmp_path, holders):
    tree.up("--gpus", "1x16160MiB")
    holders(tree, 0, 500)
    out = in_container(tree, tmp_path, [0], "/run/tools/nvidia-smi").stdout
    assert "|    500MiB / 16160MiB |" in out
    assert out.rstrip().splitlines()[-2].startswith("|=====")


def test_faults_reach_a_container(tree, tmp_path):
    tree.up("--gpus", "1x16160MiB")
    tree.fault(0, "lost")
    assert in_container(tree, tmp_path, [0], "/run/tools/nvidia-smi").returncode == 15


def test_processes_that_come_and_go_leave_nothing(tree):
    tree.up("--gpus", "1x16160MiB")
    processes = []
    for _ in range(40):
        processes.append(subprocess.Popen([RATION_SIM, "hold", tree.path, "0", "10"], stdout=subprocess.DEVNULL))
    deadline = time.monotonic() + 30
    while "|    400MiB / 16160MiB |" not in tree.table():
        assert time.monotonic() < deadline
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
    assert "|      0MiB / 16160MiB |" in tree.table()
