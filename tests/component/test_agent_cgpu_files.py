"""Grants and usage files over time: what stays, what goes, and what becomes of damaged ones."""
import os
import pathlib
import shutil
import subprocess

import pytest

from agent_fixture import NODE, mounts_below, wait_for
from cgpu_node import (LIVE, MIB, card_of, come_back, folder, identity, isolated, lasting,
                       renew_worker, start, uid_of, needs_root)
from fake_kubelet import StartError
from metrics_page import agent_page
import grants

pytestmark = needs_root


@pytest.fixture
def world():
    with isolated() as w:
        yield w.up(30)


@pytest.fixture
def down():
    with isolated() as w:
        yield w


# ---- what stays, and what goes ----

@pytest.mark.parametrize("how", ["worker", "supervisor", "in order"])
def test_agent_that_comes_back_takes_grants_over_as_they_are(world, how):
    pod, _ = start(world)
    before = identity(world, pod)
    if how == "worker":
        renew_worker(world)
    else:
        world.kill_agent() if how == "supervisor" else world.stop_agent()
        assert identity(world, pod) == before
        come_back(world)
    again = world.kubelet.run(pod, "main")
    assert identity(world, pod) == before
    assert again.mounts["/run/ration/grant"]["hostPath"] == str(folder(world, pod) / "grant")
    assert len([p for p in mounts_below(world.state) if p.name == uid_of(pod)]) == 1
    other, _ = start(world, "b", card=1)
    assert card_of(folder(world, other) / "grant")[0] == world.uuid(1)


def test_reboot_empties_everything_and_the_start_of_the_container_makes_it_again(world):
    pod, before = start(world)
    world.kill_agent()
    world.unmount_all()
    for path in (world.state, world.kubelet.cdi_dir):
        shutil.rmtree(path)
    world.kubelet.cdi_dir.mkdir()
    come_back(world)
    after = world.kubelet.run(pod, "main")
    assert after.mounts == before.mounts and after.env == before.env
    assert card_of(folder(world, pod) / "grant")[3] == 2154


def test_files_of_a_pod_go_when_it_is_over(world):
    pod, _ = start(world)
    place = folder(world, pod).parent
    world.api.set_phase("a", "Succeeded")
    world.kubelet.end(pod)
    world.kubelet.remove(pod)
    world.api.delete("pods", "a")
    wait_for(lambda: not place.exists(), timeout=5)
    assert place not in mounts_below(world.state)
    assert not (world.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json").exists()


@pytest.mark.waits
def test_grants_whose_pod_nobody_knows_go_and_those_of_living_containers_stay(down):
    grants_dir = down.state / "grants"
    (grants_dir / "11111111-2222-3333-4444-555555555555").mkdir(parents=True)    # killed before it was mounted
    down.up(30)
    pod, _ = start(down)
    down.kill_agent()
    down.api.silence(True)
    down.api.delete("pods", "a")     # by force: its container runs on
    down.api.silence(False)
    (down.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json").unlink()
    down.start_agent()
    wait_for(lambda: not (grants_dir / "11111111-2222-3333-4444-555555555555").exists(), timeout=15)
    assert (folder(down, pod) / "grant").exists()
    down.kubelet.end(pod)
    wait_for(lambda: not folder(down, pod).parent.exists(), timeout=15)


@pytest.mark.parametrize("step", ["folder", "mount", "container", "usage", "torn usage", "torn grant", "grant"])
def test_agent_that_was_killed_between_two_steps_is_followed_by_one_that_goes_on(down, step):
    """What lies there after a SIGKILL at each step of Allocate; the temporary files have the dead one's pid."""
    down.up(30)
    pod = down.pod("a", 2, card=0)
    down.kubelet.admit(pod)
    whole = [(name, lasting(folder(down, pod) / name)) for name in ("grant", "usage")]
    down.kill_agent()
    place = folder(down, pod)
    (down.kubelet.cdi_dir / f"ration-{uid_of(pod)}.json").unlink()
    if step in ("folder", "mount"):
        down.unmount(place.parent)
        if step == "mount":
            subprocess.run(["mount", "-t", "tmpfs", "ration", place.parent], check=True)
    else:
        grant, usage = (place / "grant").read_bytes(), (place / "usage").read_bytes()
        shutil.rmtree(place)
        place.mkdir()
        if step == "torn usage":
            (place / "usage.4194304").write_bytes(usage[:10])
        if step in ("usage", "torn grant", "grant"):
            (place / "usage").write_bytes(usage)
        if step == "torn grant":
            (place / "grant.4194304").write_bytes(grant[:5000])
        if step == "grant":
            (place / "grant").write_bytes(grant)
    come_back(down)
    c = down.kubelet.run(pod, "main")
    assert c.mounts["/run/ration/grant"]["hostPath"] == str(place / "grant")
    after = {p.name: lasting(p) for p in place.iterdir()}
    assert [(name, after[name]) for name in ("grant", "usage")] == whole
    assert [p for p in mounts_below(down.state) if p == place.parent] == [place.parent]
    assert not down.api.events("GPUGrantDamaged")


def test_limit_of_a_running_container_follows_its_placement(world):
    pod, _ = start(world)
    before = identity(world, pod)
    placement = world.placement(0, main=3)["ration.dev/placement"].replace('"unit"', '"resizes": 1, "unit"')
    world.api.patch("pods", "a", {"metadata": {"annotations": {"ration.dev/placement": placement}}})
    wait_for(lambda: card_of(folder(world, pod) / "grant")[3] == 16160 * 3 // 15, timeout=1)
    assert card_of(folder(world, pod) / "grant")[1] == 2154     # when it was made
    assert [inode for inode, _ in identity(world, pod)] == [inode for inode, _ in before]
    world.kill_agent()
    come_back(world)
    world.kubelet.run(pod, "main")
    assert card_of(folder(world, pod) / "grant")[3] == 16160 * 3 // 15


# ---- damaged files ----

@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "of another pod", "gone"])
def test_grant_that_is_damaged_is_reported_and_made_anew_at_the_next_start(world, damage):
    pod, _ = start(world)
    other, _ = start(world, "b", units=5, card=1)
    grant = folder(world, pod) / "grant"
    before, content = lasting(grant), grant.read_bytes()
    new = {"truncated": content[:2000], "empty": b"", "garbage": b"\xff" * len(content),
           "of another pod": (folder(world, other) / "grant").read_bytes()}
    world.kill_agent()
    grant.unlink() if damage == "gone" else grant.write_bytes(new[damage])
    come_back(world)
    if damage not in ("of another pod", "gone"):
        event = wait_for(lambda: world.api.events("GPUGrantDamaged"))[0]
        assert uid_of(pod) in event["message"] and event["involvedObject"]["kind"] == "Node"
        assert grant.read_bytes() == new[damage]    # a running container may have it: left alone
    world.kubelet.run(pod, "main")
    assert lasting(grant) == before
    assert card_of(folder(world, other) / "grant")[3] == 16160 * 5 // 15


@pytest.mark.parametrize("damage", [b"", b"x" * 100, b"\xff" * 2 * MIB], ids=["empty", "short", "garbage"])
def test_usage_file_that_a_container_has_spoilt_is_new_at_its_next_start(world, damage):
    pod, _ = start(world)
    usage = folder(world, pod) / "usage"
    usage.write_bytes(damage)
    agent_page(world)    # reads it, too
    assert world.agent.poll() is None
    world.kubelet.run(pod, "main")
    assert usage.read_bytes()[:8] == b"RAUSAGE1" and usage.stat().st_size == grants.USAGE_SIZE
    assert card_of(usage.with_name("grant"))[3] == 2154


@pytest.mark.parametrize("lost", ["grant", "usage", "folder", "mount"])
def test_files_that_were_taken_away_from_under_the_agent_are_there_again_at_the_next_start(world, lost):
    pod, _ = start(world)
    place = folder(world, pod)
    before = (place / "grant").read_bytes()
    if lost == "mount":
        world.unmount(place.parent)
    elif lost == "folder":
        shutil.rmtree(place)
    else:
        (place / lost).unlink()
    world.kubelet.run(pod, "main")
    assert (place / "grant").read_bytes()[:LIVE] == before[:LIVE]    # looks are written all the time
    assert (place / "usage").stat().st_size == grants.USAGE_SIZE
    new = (place / "usage").stat()
    assert (new.st_dev, new.st_ino) in {(s.st_dev, s.st_ino) for fd in
                                        pathlib.Path(f"/proc/{world.worker()}/fd").iterdir() if (s := fd.stat())}


def test_charges_of_a_container_survive_the_start_of_another(world):
    pod = world.pod_of("two", {"m1": 3, "m2": 2}, card=0)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "m1")
    grants.charge(folder(world, pod, "m1") / "usage", 0, 100 * MIB)
    before = (folder(world, pod, "m1") / "usage").read_bytes()
    world.kubelet.run(pod, "m2")
    world.kubelet.run(pod, "m1")
    assert (folder(world, pod, "m1") / "usage").read_bytes() == before


def test_pods_folder_that_is_full_delays_the_next_container_and_no_other_pod(world):
    pod = world.pod_of("two", {"m1": 3, "m2": 2}, card=0)
    world.kubelet.admit(pod)
    world.kubelet.run(pod, "m1")
    shutil.rmtree(folder(world, pod, "m2"))
    renew_worker(world)     # nobody has what was there open any more
    usage = folder(world, pod, "m1") / "usage"
    with open(usage, "ab") as f, pytest.raises(OSError):
        for _ in range(64):
            f.write(b"x" * MIB)
            f.flush()
    with pytest.raises(StartError, match="cannot be written: No space left"):
        world.kubelet.run(pod, "m2")
    start(world, "other", card=1)
    os.truncate(usage, grants.USAGE_SIZE)
    world.kubelet.run(pod, "m2")


def test_run_that_is_full_delays_the_pod_and_does_not_fail_it():
    with isolated(run_in_memory=True) as w:
        subprocess.run(["mount", "-o", "remount,size=8m", w.state.parent], check=True)
        w.up(30)
        before, _ = start(w, "before")
        filler = w.state.parent / "filler"
        with open(filler, "wb", buffering=0) as f, pytest.raises(OSError):
            while True:
                f.write(b"x" * 4096)
        pod = w.pod("a", 2, card=1)
        w.kubelet.admit(pod)
        with pytest.raises(StartError, match="No space left"):
            w.kubelet.run(pod, "main")
        w.kubelet.run(before, "main")
        filler.unlink()
        w.kubelet.run(pod, "main")
        assert card_of(folder(w, pod) / "grant")[3] == 2154


# ---- hostile or odd names ----

@pytest.mark.parametrize("uid", ["../../etc", "a/b", "..", ".hidden", "a b", "a,size=1g", "\u00fc"],
                         ids=range(7))
def test_uid_that_could_leave_its_folder_is_refused(world, uid):
    limits = {"aliyun.com/gpu-mem": "2"}
    pod = world.api.create("pods", {
        "metadata": {"name": "odd", "namespace": "default", "uid": uid, "annotations": world.placement(0, main=2)},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"}})
    before = {p.name for p in world.state.iterdir()}
    world.kubelet.admit(pod)
    with pytest.raises(StartError, match="default/odd|can be no folder"):
        world.kubelet.run(pod, "main")
    assert {p.name for p in world.state.iterdir()} - before <= {"grants", "pods"}
    start(world, "good", card=1)


@pytest.mark.parametrize("what", ["file", "link", "folder"])
def test_what_lies_where_a_pods_folder_belongs_harms_nobody(world, what):
    pod = world.pod("a", 2, card=0)
    place, elsewhere = folder(world, pod).parent, world.dir / "elsewhere"
    place.parent.mkdir(exist_ok=True)
    elsewhere.mkdir()
    if what == "file":
        place.write_text("x")
    elif what == "link":
        place.symlink_to(elsewhere)
    else:
        place.mkdir()
        (place / "main").mkdir()
        (place / "main" / "grant").write_text("x")
    world.kubelet.admit(pod)
    if what == "folder":
        world.kubelet.run(pod, "main")
        assert card_of(folder(world, pod) / "grant")[3] == 2154
    else:
        with pytest.raises(StartError, match="Not a directory"):
            world.kubelet.run(pod, "main")
        place.unlink()
        world.kubelet.run(pod, "main")
    assert not list(elsewhere.iterdir()) and not mounts_below(elsewhere)
