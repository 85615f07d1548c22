"""The agent is killed at each step of preparing and unpreparing a claim: the next call answers the same, and nothing is left behind."""
import subprocess

import grpc
import pytest

from agent_fixture import wait_for
from cgpu_node import needs_root
from dra_node import DraWorld, limits, nothing_left, prepared, uid_of

pytestmark = [needs_root, pytest.mark.plain]    # the library below has to be the first one

# The process ends at the system call of a step, once: before it, or after it.
KILLER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_step(const char *call, const char *path, const char *when)
{
	char text[200] = "", wanted_call[50], wanted_path[100], wanted_when[20];
	int fd = open(getenv("KILL_AT"), O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 ||
		sscanf(text, "%49s %99s %19s", wanted_call, wanted_path, wanted_when) != 3) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	close(fd);
	return strcmp(call, wanted_call) == 0 && strstr(path, wanted_path) && strcmp(when, wanted_when) == 0;
}

static void step(const char *call, const char *path, const char *when)
{
	if (!is_step(call, path, when))
		return;
	truncate(getenv("KILL_AT"), 0);
	kill(getpid(), SIGKILL);
}

int rename(const char *from, const char *to)
{
	int r;

	step("rename", to, "before");
	r = ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(from, to);
	step("rename", to, "after");
	return r;
}

int unlink(const char *path)
{
	int r;

	step("unlink", path, "before");
	r = ((int (*)(const char *))dlsym(RTLD_NEXT, "unlink"))(path);
	step("unlink", path, "after");
	return r;
}

int umount2(const char *path, int flags)
{
	int r;

	step("umount2", path, "before");
	r = ((int (*)(const char *, int))dlsym(RTLD_NEXT, "umount2"))(path, flags);
	step("umount2", path, "after");
	return r;
}
"""
PREPARE = [("rename", "/claims/", "before"), ("rename", "/claims/", "after"), ("rename", "/claim/usage", "after"), ("rename", "/claim/grant", "before"),
           ("rename", "/claim/grant", "after"), ("rename", "/cdi/ration-", "before"), ("rename", "/cdi/ration-", "after")]
UNPREPARE = [("unlink", "/cdi/ration-", "before"), ("unlink", "/cdi/ration-", "after"), ("umount2", "/grants/", "before"),
             ("umount2", "/grants/", "after"), ("unlink", "/claims/", "before"), ("unlink", "/claims/", "after")]


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """-> killed(world, call, *step): the call ends with the agent."""
    library, step_file = tmp_path / "killer.so", tmp_path / "step"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=KILLER, text=True, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("KILL_AT", str(step_file))

    def kill(world, call, *step):
        worker = world.worker()
        step_file.write_text(" ".join(step))
        with pytest.raises(grpc.RpcError):
            call()
        assert step_file.read_text() == "", f"the agent did not come to {step}"
        wait_for(lambda: world.worker() not in (None, worker))
        world.dra.register()
    return kill


@pytest.mark.parametrize("step", PREPARE, ids="-".join)
def test_a_claim_whose_preparation_was_cut_is_prepared_by_the_next_call(killed, step):
    with DraWorld() as w:
        w.up_for_claims()
        other = w.claim("other", {"memory": "2Gi"})
        first = prepared(w, other)
        claim = w.claim("slice", {"memory": "3Gi"})
        killed(w, lambda: w.dra.prepare(claim), *step)
        answer = prepared(w, claim)
        assert [list(d.cdi_device_ids) for d in answer.devices] == [[f"ration.dev/grant={uid_of(claim)}.claim"]]
        assert limits(w, claim) == [(w.uuid(0), 3072)] and prepared(w, other) == first
        assert len(w.grants()) == len(w.cdi_files()) == len(w.records()) == 2
        # What was left behind does not count twice: all of the GPU can be given.
        prepared(w, w.claim("rest", {"memory": "10Gi"}))


@pytest.mark.parametrize("step", PREPARE, ids="-".join)
def test_a_claim_whose_preparation_was_cut_is_unprepared_without_a_trace(killed, step):
    with DraWorld() as w:
        w.up_for_claims()
        claim = w.claim("slice", {"memory": "3Gi"})
        killed(w, lambda: w.dra.prepare(claim), *step)
        assert w.dra.unprepare(claim)[uid_of(claim)].error == ""
        nothing_left(w)


@pytest.mark.parametrize("step", UNPREPARE, ids="-".join)
def test_a_claim_whose_end_was_cut_is_unprepared_by_the_next_call(killed, step):
    with DraWorld() as w:
        w.up_for_claims()
        claim = w.claim("slice", {"memory": "3Gi"})
        prepared(w, claim)
        killed(w, lambda: w.dra.unprepare(claim), *step)
        assert w.dra.unprepare(claim)[uid_of(claim)].error == ""
        nothing_left(w)


@pytest.mark.parametrize("step", [PREPARE[1], PREPARE[4], UNPREPARE[1]], ids="-".join)
def test_what_a_cut_call_has_left_goes_even_if_the_kubelet_never_calls_again(killed, step):
    with DraWorld() as w:
        w.up_for_claims()
        claim = w.claim("slice", {"memory": "3Gi"})
        if step in UNPREPARE:
            prepared(w, claim)
        killed(w, lambda: (w.dra.unprepare if step in UNPREPARE else w.dra.prepare)(claim), *step)
        w.api.delete("resourceclaims", "slice", "default")
        wait_for(lambda: not w.records(), timeout=30)    # it may have asked just before, and asks again after 10 s
        nothing_left(w)


def test_a_file_that_was_half_written_goes(killed):
    """5 s after the start of the next agent, with those of pods that are over."""
    with DraWorld() as w:
        w.up_for_claims()
        claim = w.claim("slice", {"memory": "3Gi"})
        killed(w, lambda: w.dra.prepare(claim), "rename", "/cdi/ration-", "before")
        assert len(list(w.kubelet.cdi_dir.iterdir())) == 1
        wait_for(lambda: not list(w.kubelet.cdi_dir.iterdir()))
