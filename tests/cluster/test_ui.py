"""`ration ui` on a real cluster, in a browser without a window: what pods use, what is stranded, why a pod waits, and a moment of the past.
RATION_PICTURES=FOLDER writes the picture of the guide and of the README (docs/guide/ui.png)."""
import contextlib
import json
import os
import pathlib
import re
import struct
import subprocess
import time

import pytest

from cluster import ROOT
from corepods import CORE
from gpupods import container, pod
from gpuprogram import program
from webdriver import MISSING, Browser

pytestmark = [pytest.mark.long(60), pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

NODES = ["gpu-1.192.168.50.1=4x16160MiB,core_mem", "gpu-2.192.168.50.2=4x24576MiB,cgpu", "gpu-3.192.168.50.3=2x16160MiB,share"]
*ISOLATED, SHARED = [node.partition("=")[0] for node in NODES]
TEAMS = ("search", "chat", "vision")
# team, name, units, MiB that it holds, percent of the computing power
PODS = [("search", "ranker-0", 6, 5000, 40), ("search", "ranker-1", 6, 3100, 40), ("chat", "answers-0", 5, 2600, 30), ("chat", "answers-1", 9, 8100, 55),
        ("vision", "labels-0", 8, 4200, 60), ("vision", "labels-1", 5, 700, 35), ("search", "index-0", 14, 9000, 0), ("search", "index-1", 10, 2200, 0),
        ("chat", "notebook-0", 9, 7900, 0), ("chat", "notebook-1", 13, 500, 0), ("vision", "train-0", 20, 17000, 0), ("vision", "train-1", 16, 12100, 0)]
SIZE = (1280, 470)
PICTURE_MAX = 120 * 1024


@pytest.fixture(name="browser", scope="module")
def _browser(tmp_path_factory):
    running = Browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.close()


def busy(team, name, units, mib, core):
    """Holds memory; with a percentage it also copies without end."""
    command = f"{program('hold', mib).removeprefix('exec ')} > /dev/null & cd /root && exec bash run.sh --num_batches=500000000 --batch_size=8" if core \
        else program("hold", mib)
    made = container("main", units, command=command)
    if core:
        made["resources"]["limits"][CORE] = core
    nodes = ISOLATED[:1] if core else ISOLATED[1:]
    body = pod(name, containers=[made], nodeSelector={"kubernetes.io/hostname": nodes[0]})
    body["metadata"]["namespace"] = team
    return body


def all_run(cluster, names):
    pods = {p["metadata"]["name"]: p for p in cluster.json("get", "pods", "-A")["items"]}
    return all(name in pods and pods[name]["status"]["phase"] == "Running" for name in names)


@pytest.fixture(name="cluster")
def _cluster(lab):
    """With three teams, whose pods run."""
    cluster = lab(NODES)
    for team in TEAMS:
        cluster.kubectl("create", "namespace", team)
    try:
        cluster.wait_for(lambda: len(cluster.json("get", "serviceaccounts", "-A", "--field-selector=metadata.name=default")["items"]) >= len(TEAMS) + 5, 30,
                         "the service accounts")
        for one in PODS:
            cluster.create(busy(*one))
        cluster.wait_for(lambda: all_run(cluster, [name for _, name, *_ in PODS]), 90, "all pods run")
        cluster.run("ration", "cordon", SHARED, "1", "--reason", "ECC errors")
        yield cluster
    finally:
        cluster.run("ration", "uncordon", SHARED, "1", check=False)
        for team in TEAMS:
            cluster.kubectl("-n", team, "delete", "pods", "--all", "--wait=true")
            cluster.kubectl("delete", "namespace", team, "--wait=false")


@contextlib.contextmanager
def ui(cluster):
    with subprocess.Popen(["ration", "ui", "--no-browser"], env=cluster.environment, text=True, stdout=subprocess.PIPE) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def labels(browser):
    return browser.run("return Object.fromEntries([...document.querySelectorAll('#nodes .gpu button')].map((b) => [b.textContent, b.getAttribute('aria-label')]))")


def used_by_top(cluster):
    document = json.loads(cluster.run("ration", "top", "-o", "json").stdout)
    return {holder["pod"]: holder for gpu in document["cards"] for holder in gpu["holders"]}


def test_the_page_shows_a_real_cluster(cluster, browser):
    cluster.create(pod("large", 30))
    brief = pod("brief", 3)
    cluster.create(brief)
    cluster.wait_running(names=["brief"])
    time.sleep(1.5)
    seen = time.time()
    time.sleep(1.5)
    cluster.kubectl("delete", "pod", "brief", "--wait=true")
    browser.devtools("Emulation.setDeviceMetricsOverride", width=SIZE[0], height=SIZE[1], deviceScaleFactor=1, mobile=False)
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.messages()
    with ui(cluster) as url:
        browser.open(url)
        browser.wait("document.querySelectorAll('#nodes svg').length === 10", seconds=60)
        browser.wait("document.querySelectorAll('#nodes .off').length === 1", seconds=60)
        assert browser.run("return document.querySelector('#waiting-list button').textContent").endswith("/large: 30 units")
        # What each pod uses is what `ration top` says: memory within a MiB, as it does not change; computing power is there.
        browser.wait("document.querySelectorAll('#nodes .used').length === 12 && document.querySelectorAll('#nodes .core-used').length", seconds=60)
        top, told = used_by_top(cluster), labels(browser)
        for team, name, units, _mib, core in PODS:
            used = top[name]["usedBytes"]
            amount = f"{round(used / 2**20)} MiB" if used < 2**30 else f"{round(used / 2**30 * 10) / 10:g} GiB"
            granted = f"Pod {team}/{name} {units} GiB" + (f" and {core} % of the computing power" if core else "")
            assert told[name].startswith(f"{granted}, uses {amount}"), (told[name], used)
        # The largest kind of pod of the cluster has 30 units, the smallest 5 with 30 % and 9 without; so less than 9 units are stranded on each GPU of gpu-2.
        stranded = browser.run("return view.nodes.map((node) => node.gpus.map((gpu) => [gpu.total - gpu.allocated, gpu.stranded]))")
        assert all(strands == (free if free < 9 else free - 9 * (free // 9) if free < 10 else strands) for free, strands in stranded[1]), stranded
        assert "of it stranded" in browser.run("return document.getElementById('summary').textContent")
        assert browser.run("return document.getElementById('use-problem').hidden")
        picture(browser)
        # A click on a pod: why, and its use over the last minutes.
        browser.run("[...document.querySelectorAll('#nodes .gpu button')].find((button) => button.textContent === 'answers-0').click()")
        assert "chat/answers-0" in browser.wait("document.getElementById('panel-text').textContent", seconds=60)
        past = browser.wait("!document.getElementById('panel-use').hidden && document.getElementById('panel-past').textContent")
        assert re.search(r"memory \S+ GiB now, at most \S+ GiB, of 5\.3 GiB granted\. Computing power \d+ % now, .* of 30 % granted\.", past), past
        browser.press("Escape")
        # The past: `brief` ran, and is gone.
        assert "brief" not in labels(browser)
        browser.click("#past-open")
        browser.wait("document.body.classList.contains('past')", seconds=60)
        browser.run("const at = document.getElementById('past-at'); at.value = arguments[0]; at.dispatchEvent(new Event('input'))", seen * 1000)
        browser.wait("[...document.querySelectorAll('#nodes .gpu button')].some((button) => button.textContent === 'brief')", seconds=60)
        assert set(labels(browser)) == {"brief", *(name for _, name, *_ in PODS)}
        browser.click("#past-now")
        browser.wait("![...document.querySelectorAll('#nodes .gpu button')].some((button) => button.textContent === 'brief')", seconds=60)
    browser.open("about:blank")
    assert not [text for text in browser.messages() if not re.search("ERR_EMPTY_RESPONSE|ERR_CONNECTION_", text)]


def picture(browser):
    kept = ROOT / "docs/guide/ui.png"
    if folder := os.environ.get("RATION_PICTURES"):
        kept = pathlib.Path(folder) / "ui.png"
        kept.write_bytes(browser.picture())
    data = kept.read_bytes()
    assert struct.unpack(">II", data[16:24]) == SIZE and len(data) < PICTURE_MAX
