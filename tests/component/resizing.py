"""What the tests of resizes share: a running pod, the annotation that asks for another size, the answer."""
import json
import os
import pathlib
import subprocess

from fake_apiserver import wait_for

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
RATION = BUILD / "src/cli/ration"
KUBECTL = pathlib.Path(__file__).parent.resolve() / "http_kubectl.py"
RESIZE, STATUS, PLACEMENT = "ration.dev/resize", "ration.dev/resize-status", "ration.dev/placement"


def run_pod(api, scheduler, name, gpu_mem=None, node="n", **more):
    pod = api.create_pod(name, gpu_mem=gpu_mem, **more)
    wait_for(lambda: scheduler.filter(pod, [node]).get("NodeNames") == [node], 5, f"{name} fits")
    assert scheduler.bind(pod, node) == ""
    api.set_phase(name, "Running")
    return api.pod(name)


def annotations(api, name):
    return api.pod(name)["metadata"]["annotations"]


def ask(api, name, request):
    text = request if isinstance(request, str) else json.dumps(request)
    api.patch("pods", name, {"metadata": {"annotations": {RESIZE: text}}}, "default")
    return text


def answer(api, name, timeout=8):
    wait_for(lambda: RESIZE not in annotations(api, name), timeout, "an answer")
    return json.loads(annotations(api, name)[STATUS])


def resize(api, name, request):
    text = ask(api, name, request)
    status = answer(api, name)
    assert status["request"] == text
    return status["applied"], status["message"]


def units(api, name):
    placement = json.loads(annotations(api, name)[PLACEMENT])
    return {c: [card["units"] for card in cards] for c, cards in placement["containers"].items()}


def ration(api, *args, namespace="default"):
    environment = os.environ | {"KUBECTL": str(KUBECTL), "API_URL": api.url, "KUBECTL_NAMESPACE": namespace}
    return subprocess.run([RATION, "set", *args], capture_output=True, text=True, timeout=60, env=environment)
