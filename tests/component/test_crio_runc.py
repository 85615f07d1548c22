"""What a lab with CRI-O takes out of a container's configuration before runc has it."""
import json
import subprocess
import sys

import pytest

from fake_driver import ROOT

sys.path.insert(0, str(ROOT / "lab"))
from rationlab import crio_runc    # noqa: E402

SPEC = {"process": {"oomScoreAdj": -997, "args": ["x"]}, "linux": {"resources": {"hugepageLimits": [{"limit": 0}], "pids": {"limit": 1}}}}


@pytest.mark.parametrize("adj, lacks_cap, becomes", [(-997, True, 0), (-997, False, -997), (1000, True, 1000)])
def test_oom_score_adj_is_lowered_only_with_the_capability(adj, lacks_cap, becomes):
    spec = {"process": {"oomScoreAdj": adj}, "linux": {}}
    crio_runc.adapt(spec, lacks_cap, True)
    assert spec == {"process": {"oomScoreAdj": becomes}, "linux": {}}


@pytest.mark.parametrize("lacks_cap, left", [(True, ["CAP_CHOWN"]), (False, ["CAP_CHOWN", "CAP_SYS_RESOURCE"])])
def test_a_privileged_container_gets_the_capability_only_where_it_can_be_given(lacks_cap, left):
    spec = {"process": {"capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"], "effective": []}}, "linux": {}}
    crio_runc.adapt(spec, lacks_cap, True)
    assert spec["process"]["capabilities"] == {"bounding": left, "effective": []}


def test_huge_pages_are_limited_only_where_their_controller_is_mounted():
    spec = json.loads(json.dumps(SPEC))
    crio_runc.adapt(spec, False, True)
    assert spec == SPEC
    crio_runc.adapt(spec, False, False)
    assert spec["linux"] == {"resources": {"pids": {"limit": 1}}}


def test_runc_gets_the_arguments_and_the_bundle(tmp_path):
    (tmp_path / "runc").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "runc").chmod(0o755)
    (tmp_path / "config.json").write_text(json.dumps(SPEC))

    def said(*arguments):
        return subprocess.run([sys.executable, crio_runc.__file__, *arguments], env={"PATH": f"{tmp_path}:/bin"}, check=True,
                              capture_output=True, text=True).stdout.split()
    create = ["--root=/r", "create", "--bundle", str(tmp_path), "id"]
    assert said(*create) == create
    assert json.loads((tmp_path / "config.json").read_text())["process"]["args"] == ["x"]
    assert said("state", "id") == ["state", "id"]
