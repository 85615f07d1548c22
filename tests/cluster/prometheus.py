"""A real Prometheus inside a lab's network, with what its operator makes of our ServiceMonitors. Debian's is built
without the discovery of Kubernetes: what that would find is read from the API server here, at the start."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

import yaml

from cluster import wait_for
from testimages import lab as labs
from rationlab import network, paths    # on the path by testimages

PROGRAM = paths.cache_root() / "debian/prometheus/usr/bin/prometheus"    # lab/install-packages
PORT = 19090
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def found(cluster, service):
    """Static targets with the labels of discovery (role endpointslice), as far as ServiceMonitors use them."""
    slices = cluster.json("get", "endpointslices", "-n", "kube-system", "-l",
                          f"kubernetes.io/service-name={service['metadata']['name']}")["items"]
    targets = []
    for one in slices:
        for endpoint in one["endpoints"]:
            for port in one["ports"]:
                meta = {"namespace": "kube-system", "service_name": service["metadata"]["name"],
                        "pod_name": endpoint["targetRef"]["name"], "pod_node_name": endpoint["nodeName"],
                        "endpointslice_port_name": port["name"]}
                meta |= {f"service_label_{key}": value for key, value in service["metadata"]["labels"].items()
                         if "/" not in key}
                targets.append({"targets": [f"{endpoint['addresses'][0]}:{port['port']}"],
                                "labels": {f"__meta_kubernetes_{key}": value for key, value in meta.items()}})
    return targets


def scrape_config(cluster, monitor, interval):
    """Its relabeling is the operator's own, then the monitor's. All Services are looked at: the monitor selects."""
    (endpoint,) = monitor["spec"]["endpoints"]
    keep = [{"sourceLabels": [f"__meta_kubernetes_service_label_{key}"], "regex": value, "action": "keep"}
            for key, value in monitor["spec"]["selector"]["matchLabels"].items()]
    keep.append({"sourceLabels": ["__meta_kubernetes_endpointslice_port_name"], "regex": endpoint["port"],
                 "action": "keep"})
    named = [{"sourceLabels": [f"__meta_kubernetes_{source}"], "targetLabel": target} for source, target in (
        ("namespace", "namespace"), ("pod_name", "pod"), ("service_name", "job"))]
    snake = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    relabelings = [{snake.get(key, key): value for key, value in rule.items()}
                   for rule in keep + named + endpoint["relabelings"]]
    services = cluster.json("get", "services", "-n", "kube-system")["items"]
    return {"job_name": monitor["metadata"]["name"], "honor_labels": endpoint["honorLabels"],
            "scrape_interval": interval, "scrape_timeout": interval, "relabel_configs": relabelings,
            "static_configs": [target for service in services for target in found(cluster, service)]}


class Prometheus:
    """with Prometheus(cluster, monitors, rules) as p: p.query("up"). Rules: paths of files."""

    def __init__(self, cluster, monitors, rules):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ration-prometheus-"))
        self.log = open(self.folder / "log", "w+", encoding="utf-8")
        lab = labs.Lab.existing(cluster.name)
        self.address = f"{network.control_address(lab.slot)}:{PORT}"
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump({
            "global": {"evaluation_interval": "1s"}, "rule_files": [str(path) for path in rules],
            "scrape_configs": [scrape_config(cluster, monitor, "1s") for monitor in monitors]}))
        self.process = subprocess.Popen(
            network.inside(network.control_namespace(cluster.name), [
                PROGRAM, f"--config.file={self.folder}/prometheus.yaml", f"--storage.tsdb.path={self.folder}/data",
                f"--web.listen-address={self.address}"]),
            stdout=self.log, stderr=subprocess.STDOUT, env=dict(os.environ, no_proxy="*", NO_PROXY="*"))

    def __enter__(self):
        wait_for(self._is_ready, 20, "Prometheus")
        return self

    def __exit__(self, *details):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_ready(self):
        assert self.process.poll() is None, self.said()
        try:
            return OPENER.open(f"http://{self.address}/-/ready", timeout=5).status == 200
        except OSError:
            return False

    def said(self):
        self.log.seek(0)
        return self.log.read()[-3000:]

    def ask(self, path, **parameters):
        """The answer's data; who asks wrongly is told what Prometheus said."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with OPENER.open(url, timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expr):
        """[(labels, value)] now."""
        return [(item["metric"], float(item["value"][1])) for item in self.ask("query", query=expr)["result"]]

    def range(self, expr, seconds, step=1):
        """[(labels, [(time, value)])] of the last seconds."""
        now = time.time()
        data = self.ask("query_range", query=expr, start=now - seconds, end=now, step=step)
        return [(item["metric"], [(at, float(value)) for at, value in item["values"]]) for item in data["result"]]

    def targets(self):
        """{(job, pod): health} of what is scraped."""
        return {(t["labels"]["job"], t["labels"]["pod"]): t["health"] for t in self.ask("targets")["activeTargets"]}
