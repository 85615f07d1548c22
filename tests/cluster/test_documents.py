"""The documents followed: their manifests field for field, their outputs character by character, on the lab's
Kubernetes, and in the full form on a newer one."""
import pathlib

import pytest

from cluster import built
from helmcharts import KUBERNETES, NEWEST
from releases import install_one

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
ONE_NODE = {"seeds/2": ["cn-shanghai.192.168.6.104=1x16160MiB,share"],
            "seeds/3": ["cn-zhangjiakou.192.168.66.139=1x16160MiB,share"],
            "seeds/1": ["cn-beijing.192.168.8.44=1x16384MiB,share"]}
ALL = [*ONE_NODE["seeds/1"], "cn-hangzhou.192.168.7.31=4x16160MiB,core_mem,binpack"]

# From the documents, trailing blanks aside.
INSPECT_EMPTY = """\
NAME                       IPADDRESS      GPU0(Allocated/Total)  GPU Memory(GiB)
cn-shanghai.192.168.6.104  192.168.6.104  0/15                   0/15
----------------------------------------------------------------------
Allocated/Total GPU Memory In Cluster:
0/15 (0%)
"""
INSPECT_BEFORE = """\
NAME                           IPADDRESS       GPU0(Allocated/Total)  GPU Memory(GiB)
cn-zhangjiakou.192.168.66.139  192.168.66.139  0/15                   0/15
---------------------------------------------------------------------------
Allocated/Total GPU Memory In Cluster:
0/15 (0%)
"""
INSPECT_AFTER = INSPECT_BEFORE.replace("0/15 (0%)", "3/15 (20%)").replace("0/15                   0/15",
                                                                         "3/15                   3/15")


# "": the lab's own release, with the two charts of the lab. The others: one chart is installed.
RELEASES = ["", *(pytest.param(release, marks=pytest.mark.full) for release in ("1.30.14", KUBERNETES, NEWEST))]


@pytest.fixture(params=RELEASES, ids=lambda release: release or "default")
def documented(lab, request):
    """documented(nodes): a lab of that release."""
    def one_chart(nodes):
        cluster = lab(nodes, fresh=True, options=options)
        install_one(cluster)
        return cluster
    if not request.param:
        return lab
    options = built(request.param)
    return one_chart


def stripped(text):
    return "".join(line.rstrip() + "\n" for line in text.rstrip("\n").split("\n"))


def test_seeds_2_an_empty_cluster_shows_the_documented_table(documented):
    cluster = documented(ONE_NODE["seeds/2"])
    assert stripped(cluster.kubectl("inspect", "cgpu")) == INSPECT_EMPTY


def test_seeds_3_the_job_unchanged_turns_0_of_15_into_3_of_15(documented):
    cluster = documented(ONE_NODE["seeds/3"])
    assert stripped(cluster.kubectl("inspect", "cgpu")) == INSPECT_BEFORE
    cluster.apply(EXAMPLES / "job-co-scheduler.yaml")
    pod = cluster.wait_running("app=gpu-share-sample")[0]
    assert pod["spec"]["schedulerName"] == "ack-co-scheduler"
    assert stripped(cluster.kubectl("inspect", "cgpu")) == INSPECT_AFTER
    log = cluster.wait_for(lambda: cluster.log_of(pod), 30, "the sample's first lines")
    assert "ALIYUN_COM_GPU_MEM_CONTAINER=3\n" in log and "share of the GPU's memory: 0.2000" in log
    cluster.kubectl("delete", "job", "gpu-share-sample", "--wait=true")
    cluster.wait_for(lambda: stripped(cluster.kubectl("inspect", "cgpu")) == INSPECT_BEFORE, 60, "0/15 again")


def test_seeds_1_the_pod_sees_its_share_and_the_whole_card(documented):
    cluster = documented(ONE_NODE["seeds/1"])
    cluster.apply(EXAMPLES / "job-share.yaml")
    pod = cluster.wait_running("app=tensorflow-mnist-share")[0]
    # The manifest names no scheduler: the chart's policy did.
    assert pod["spec"]["schedulerName"] == "ack-co-scheduler"
    env = dict(line.split("=", 1) for line in cluster.exec_in(pod, "env").splitlines() if "=" in line)
    assert env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "4"
    assert env["ALIYUN_COM_GPU_MEM_DEV"] == "16"
    table = cluster.exec_in(pod, "nvidia-smi")
    assert "/ 16384MiB |" in table and "Tesla V100" in table and "515.105.01" in table
    node = cluster.node("cn-beijing.192.168.8.44")
    for where in ("capacity", "allocatable"):
        assert node["status"][where]["aliyun.com/gpu-mem"] == "16"
        assert node["status"][where]["aliyun.com/gpu-count"] == "1"
    labels = node["metadata"]["labels"]
    assert labels["aliyun.accelerator/nvidia_name"] == "Tesla-V100-SXM2-16GB"
    assert labels["aliyun.accelerator/nvidia_mem"] == "16384MiB"
    assert labels["aliyun.accelerator/nvidia_count"] == "1"


@pytest.mark.long(20)
def test_the_jobs_of_the_documents_run_unchanged_side_by_side(documented):
    cluster = documented(ALL)
    for name, app in (("job-core-mem", "cuda-sample"), ("job-share", "tensorflow-mnist-share"),
                      ("job-co-scheduler", "gpu-share-sample")):
        cluster.apply(EXAMPLES / f"{name}.yaml")
        cluster.wait_running(f"app={app}")


def test_objects_have_the_documented_names(documented):
    cluster = documented(ONE_NODE["seeds/1"])
    ds = cluster.json("-n", "kube-system", "get", "ds", "gpushare-device-plugin-ds")
    assert ds["metadata"]["labels"]["name"] == "gpushare-device-plugin-ds"
    assert ds["spec"]["template"]["spec"]["priorityClassName"] == "system-node-critical"
    assert cluster.json("-n", "kube-system", "get", "deployment", "ack-co-scheduler")["status"]["readyReplicas"] == 2
    # A replica is ready before it has asked for the Lease.
    leases = ("-n", "kube-system", "get", "leases", "--field-selector", "metadata.name=ack-co-scheduler")
    cluster.wait_for(lambda: [lease["spec"]["holderIdentity"] for lease in cluster.json(*leases)["items"]], 60, "a replica has the Lease")


def test_doctor_finds_nothing_wrong_with_the_documented_cluster(documented):
    cluster = documented(ONE_NODE["seeds/1"])
    done = cluster.run("ration", "doctor", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith(" checks passed\n"), done.stdout
