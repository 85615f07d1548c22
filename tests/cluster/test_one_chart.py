"""One chart is enough: ack-ai-installer brings the scheduler as a part of it, unless the cluster has one already."""
import pytest

from cluster import ROOT
from releases import AGENT, SCHEDULER

NODE = "cn-zhangjiakou.192.168.66.139"
JOB = ROOT / "examples/job-share.yaml"


def install(cluster, chart, *settings):
    """As a person types it; what helm says."""
    return cluster.run("helm", "upgrade", "--install", "-n", "kube-system", chart, ROOT / "deploy/charts" / chart,
                       "--values", ROOT / "lab/values" / f"{chart}.yaml", *(word for one in settings for word in ("--set", one))).stdout


def uninstall(cluster, chart):
    cluster.run("helm", "uninstall", "-n", "kube-system", chart, "--wait")


def owner(cluster):
    """The release that has the scheduler, None if there is none."""
    found = cluster.kubectl("get", "deployments", "-n", "kube-system", "-l", f"app={SCHEDULER}", "-o",
                            "jsonpath={.items[*].metadata.annotations.meta\\.helm\\.sh/release-name}")
    return found or None


def runs_the_documents_job(cluster):
    """Which names no scheduler."""
    cluster.rolled_out()
    cluster.apply(JOB)
    p = cluster.wait_running("app=tensorflow-mnist-share")[0]
    assert p["spec"]["schedulerName"] == SCHEDULER
    cluster.kubectl("delete", "-f", JOB, "--wait")


@pytest.fixture
def cluster(lab):
    """It has both charts as releases of their own."""
    return lab([f"{NODE}=1x16160MiB,share"], fresh=True)


@pytest.mark.long(80)    # test_charts.py has what the chart installs
def test_one_chart_is_enough_and_the_other_one_brings_nothing_beside_it(cluster):
    assert owner(cluster) == SCHEDULER
    assert f"belongs to the release kube-system/{SCHEDULER} already" in install(cluster, AGENT)
    assert owner(cluster) == SCHEDULER

    for chart in (SCHEDULER, AGENT):
        uninstall(cluster, chart)
    assert owner(cluster) is None
    assert "get it by the policy ration-scheduler-name" in install(cluster, AGENT)
    assert owner(cluster) == AGENT
    runs_the_documents_job(cluster)

    said = install(cluster, SCHEDULER, "jobMixing=allow")
    assert f"belongs to the release kube-system/{AGENT} already" in said and "have no effect" in said
    assert owner(cluster) == AGENT and cluster.run("helm", "get", "manifest", "-n", "kube-system", SCHEDULER).stdout.strip() == ""
    uninstall(cluster, SCHEDULER)
    runs_the_documents_job(cluster)


@pytest.mark.long(80)
def test_the_scheduler_moves_into_a_release_of_its_own_and_back(cluster):
    uninstall(cluster, SCHEDULER)
    install(cluster, AGENT)
    assert owner(cluster) == AGENT
    assert "GPU pods wait until the chart ack-co-scheduler is installed" in install(cluster, AGENT, "scheduler.enabled=false")
    assert owner(cluster) is None
    told = cluster.wait_for(lambda: "no scheduler chooses GPUs" in (said := cluster.run("ration", "doctor", check=False).stdout) and said,
                            60, "the Lease of the ledger has run out")
    assert f"helm upgrade --install {AGENT} " in told and "--set scheduler.enabled=true" in told
    install(cluster, SCHEDULER)
    assert owner(cluster) == SCHEDULER
    install(cluster, AGENT)    # with the part on
    assert owner(cluster) == SCHEDULER
    runs_the_documents_job(cluster)
    uninstall(cluster, SCHEDULER)
    install(cluster, AGENT)
    assert owner(cluster) == AGENT
    runs_the_documents_job(cluster)
