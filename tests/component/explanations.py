"""What the tests of GET /why share: questions to ration-scheduler and `ration why`."""
import json
import os
import pathlib
import subprocess
import urllib.parse

from fake_apiserver import wait_for

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
RATION = BUILD / "src/cli/ration"
FAKE = pathlib.Path(__file__).parent.resolve() / "fake_kubectl.py"


def ask(scheduler, name, namespace="default", **more):
    query = urllib.parse.urlencode({"namespace": namespace, "name": name} | more)
    status, body = scheduler.http("GET", "/why?" + query)
    assert status == 200, body
    return json.loads(body)


def known(scheduler, name):
    """The watch has told the scheduler of the pod."""
    return wait_for(lambda: ask(scheduler, name).get("pod"), 5, f"{name} is known")


def by_name(answer):
    return {node["name"]: node for node in answer["nodes"]}


def bound(scheduler, pod, nodes):
    names = scheduler.filter(pod, nodes)["NodeNames"]
    assert names, "it does not fit"
    assert scheduler.bind(pod, names[0]) == ""
    return names[0]


class Person:
    """Somebody with a shell: `ration` in front of a stand-in for kubectl."""

    def __init__(self, directory, api):
        self.path, self.api = directory / "world.json", api

    def world(self, scheduler=None, leader="ack-co-scheduler-7c9f8d-x2x4z_6f1c", **more):
        about = {"forward": scheduler.ports[0]} if scheduler else {}
        about |= {"leader": leader} if leader is not None else {}
        self.path.write_text(json.dumps({"nodes": [], "pods": self.api.list("pods")} | about | more))

    def run(self, *argv, **environment):
        pathlib.Path(f"{self.path}.log").unlink(missing_ok=True)
        return subprocess.run([RATION, *argv], capture_output=True, text=True, timeout=60, check=False,
                              env=os.environ | {"FAKE_KUBECTL": str(self.path), "KUBECTL": str(FAKE)} | environment)

    def why(self, *argv):
        done = self.run("why", *argv)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def why_fails(self, *argv, **environment):
        """The sentence."""
        done = self.run("why", *argv, **environment)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.startswith("ration: ") and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def calls(self):
        return [json.loads(line)["argv"] for line in open(f"{self.path}.log")]


def gpu_pod(api, name, gpu_mem=None, scheduler="ack-co-scheduler", **more):
    api.create_pod(name, gpu_mem=gpu_mem, **more)
    return api.patch("pods", name, {"spec": {"schedulerName": scheduler}})
