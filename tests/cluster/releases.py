"""The charts' releases in a lab, as helm brings them: this version, and the one before."""
import concurrent.futures
import contextlib

import yaml

import previousversion
import testimages
from cluster import ROOT

AGENT, SCHEDULER = "ack-ai-installer", "ack-co-scheduler"
IMAGES = {AGENT: "ration-agent", SCHEDULER: "ration-scheduler"}
NOW = yaml.safe_load((ROOT / "deploy/charts" / AGENT / "Chart.yaml").read_text())["appVersion"]
BEFORE = "previous"    # tag of the images of the version before


def install(cluster, chart, *settings, charts=ROOT / "deploy/charts", tag="", dry_run=False):
    """The version before knows no global.imageRegistry. (Nothing else is set: the part `scheduler` takes its image from there.) Returns
    what helm prints: with dry_run, which changes nothing, all objects."""
    image = f"image.repository=ration/{IMAGES[chart]},image.tag={tag}"
    return cluster.run("helm", "upgrade", "--install", chart, charts / chart, "-n", "kube-system", *(["--dry-run=server"] if dry_run else []),
                       "--values", ROOT / "lab/values" / f"{chart}.yaml", "--set", ",".join((image, *settings))).stdout


def install_both(cluster):
    """Where neither is: the agent's chart brings a scheduler if there is none."""
    for chart in (SCHEDULER, AGENT):
        install(cluster, chart)


def install_one(cluster):
    """In place of what the lab has: the one chart that the documents install."""
    for chart in (SCHEDULER, AGENT):
        cluster.run("helm", "uninstall", chart, "-n", "kube-system", "--wait")
    install(cluster, AGENT)
    cluster.rolled_out()


def rollback(cluster, chart):
    cluster.run("helm", "rollback", chart, "-n", "kube-system")


def for_both(work):
    """work(chart), at the same time."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(work, (SCHEDULER, AGENT)))


def versions(cluster):
    """Tags of the images that run, of the agents and of the schedulers."""
    return [{p["spec"]["containers"][0]["image"].rpartition(":")[2]
             for p in cluster.pods(selector, "kube-system") if "deletionTimestamp" not in p["metadata"]}
            for selector in ("name=gpushare-device-plugin-ds", "app=ack-co-scheduler")]


@contextlib.contextmanager
def version_before(cluster):
    """The lab has the version before; afterwards this one again."""
    charts, programs = previousversion.get()
    testimages.give_version(cluster, BEFORE, programs)
    try:
        for chart in (AGENT, SCHEDULER):
            install(cluster, chart, charts=charts, tag=BEFORE)
        cluster.rolled_out()
        yield
    finally:
        for_both(lambda chart: install(cluster, chart))
        cluster.rolled_out()


def steps(cluster):
    """{name: (work, tags that run afterwards)}: each chart alone from the version before to this one and back, and both. The
    agent's goes back first: the policy of the scheduler's chart of before refuses the stamp of this one (docs/internals/admission.md)."""
    def both_back():
        rollback(cluster, AGENT)
        rollback(cluster, SCHEDULER)
    return {"agent": (lambda: install(cluster, AGENT), (NOW, BEFORE)),
            "scheduler": (lambda: install(cluster, SCHEDULER), (NOW, NOW)),
            "agent-back": (lambda: rollback(cluster, AGENT), (BEFORE, NOW)),
            "scheduler-back": (lambda: rollback(cluster, SCHEDULER), (BEFORE, BEFORE)),
            "both": (lambda: for_both(lambda chart: install(cluster, chart)), (NOW, NOW)),
            "both-back": (both_back, (BEFORE, BEFORE))}
