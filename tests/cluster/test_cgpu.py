"""cgpu nodes: a pod sees a card as large as its gpu-mem, and gets no more of it."""
import pytest

import gpupods
from cgpupods import with_documents_cards
from gpupods import GPU_MEM, card_of, check_what_it_sees, container, placement, pod
from gpuprogram import OUT_OF_MEMORY, last_line, program, run_in

pytestmark = pytest.mark.half(0)


@pytest.fixture
def cluster(lab):
    return with_documents_cards(lab)


def holder(name, units, mib):
    """A pod that holds so much, writes to it all the time, and says so."""
    return pod(name, containers=[container("c0", units, command=program("hold", mib))])


def said(cluster, name):
    return last_line(cluster.log_of(name))


def test_pod_of_2_units_sees_a_card_of_2154_mib(cluster):
    """16160 MiB x 2/15 = 2154.67 MiB."""
    cluster.create(pod("small", 2))
    p = cluster.wait_running(names=["small"])[0]
    check_what_it_sees(cluster, p, cluster.nodes())
    assert "/ 2154MiB" in cluster.exec_in(p, "nvidia-smi").replace("  ", " ")
    seen = run_in(cluster, p, "info")
    assert (seen["total"], seen["device"], seen["count"]) == (2154, 2154, 1)
    assert (seen := run_in(cluster, p, "nvml"))["total"] == 2154 and seen["count"] == 1


def test_allocation_past_the_limit_fails_and_the_neighbour_on_the_card_goes_on(cluster):
    cluster.create(holder("neighbour", 3, 2800))
    cluster.create(pod("small", 2))
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(names=["small", "neighbour"])}
    assert card_of(pods["small"]) == card_of(pods["neighbour"])
    before = cluster.wait_for(lambda: "rounds" in said(cluster, "neighbour") and said(cluster, "neighbour"), 20,
                              "the neighbour's first round")
    assert run_in(cluster, "small", "take", 2155) == {"result": OUT_OF_MEMORY}
    assert run_in(cluster, "small", "take", 1750) == {"result": 0}    # a context takes some 300
    assert run_in(cluster, "small", "fill")["taken"] <= 2154
    after = cluster.wait_for(lambda: said(cluster, "neighbour")["rounds"] > before["rounds"] + 5
                             and said(cluster, "neighbour"), 20, "more rounds of the neighbour")
    assert after["wrong"] == 0
    assert gpupods.fingerprint(cluster.pod("neighbour")) == gpupods.fingerprint(pods["neighbour"])


def test_container_that_crashes_starts_again_under_its_limit(cluster):
    body = pod("crash", containers=[container("c0", 2, command=program("info") + "; sleep 1; exit 1")])
    body["spec"]["restartPolicy"] = "Always"
    body["spec"]["containers"][0]["command"][2] = body["spec"]["containers"][0]["command"][2].replace("exec ", "")
    cluster.create(body)
    cluster.wait_for(lambda: sum(s.get("restartCount", 0) for s in cluster.pod("crash")["status"].get(
        "containerStatuses", [])) >= 1, 60, "a restart")
    cluster.wait_for(lambda: last_line(cluster.log_of("crash")).get("total") == 2154, 20, "its view of the card")


def test_containers_of_a_pod_are_held_each_to_its_own(cluster):
    cluster.create(pod("two", 2, 3, init=[container("i0", 5, command=program("info"))]))
    p = cluster.wait_running(names=["two"])[0]
    assert last_line(cluster.log_of(p, "i0"))["total"] == 16160 * 5 // 15
    assert run_in(cluster, p, "info", container="c0")["total"] == 16160 * 2 // 15
    assert run_in(cluster, p, "info", container="c1")["total"] == 16160 * 3 // 15
    assert p["spec"]["containers"][0]["resources"]["limits"][GPU_MEM] == "2"


def test_ration_set_changes_the_limit_of_a_pod_that_runs(cluster):
    """2 units -> 3: 16160 x 3/15 = 3232 MiB; the card has 15, the neighbour 11 of them."""
    cluster.create(pod("p", 2))
    cluster.wait_running(names=["p"])
    cluster.create(pod("neighbour", 11))
    pods = {p["metadata"]["name"]: p for p in cluster.wait_running(names=["p", "neighbour"])}
    assert card_of(pods["p"]) == card_of(pods["neighbour"])
    done = cluster.run("ration", "set", "p", "--mem", "3")
    assert "3 units" in done.stdout and "3232 MiB" in done.stdout, done.stdout
    cluster.wait_for(lambda: run_in(cluster, "p", "info")["total"] == 3232, 10, "the larger limit")
    assert run_in(cluster, "p", "take", 2800) == {"result": 0}    # a context takes some 300
    assert placement(cluster.pod("p"))["containers"]["c0"] == [{"uuid": card_of(pods["p"]), "units": 3}]
    done = cluster.run("ration", "set", "p", "--mem", "5", check=False)
    assert done.returncode != 0 and run_in(cluster, "p", "info")["total"] == 3232, done.stderr
    cluster.run("ration", "set", "pod/p", "--mem", "1")
    cluster.wait_for(lambda: run_in(cluster, "p", "info")["total"] == 1077, 10, "the smaller limit")
    assert run_in(cluster, "p", "take", 900) == {"result": OUT_OF_MEMORY}
    assert gpupods.fingerprint(cluster.pod("p")) == gpupods.fingerprint(pods["p"])
