"""The mutating webhook, as an API server asks it: TLS, its certificate in the Secret, and the answers."""
import base64
import json
import re
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from fake_apiserver import wait_for
from scheduler_fixture import BUILD

NAME, NAMESPACE = "ration-webhook", "kube-system"
HOST = f"{NAME}.{NAMESPACE}.svc"
CONFIGURATIONS = ("ration-scheduler-name", "ration-unit-stamp")


@pytest.fixture
def charts(api):
    """The API server with what the charts make."""
    api.create("secrets", {"metadata": {"name": NAME, "namespace": NAMESPACE}, "type": "Opaque"})
    for name in CONFIGURATIONS:
        api.create("mutatingwebhookconfigurations", {"metadata": {"name": name}, "webhooks": [{
            "name": f"{name}.ration.dev", "clientConfig": {"service": {"name": NAME, "namespace": NAMESPACE}}}]})
    return api


@pytest.fixture
def webhook(charts, start):
    def begin():
        scheduler = start("--webhook", f"{NAMESPACE}/{NAME}", "--webhook-listen", "127.0.0.1:0")
        scheduler.webhook = int(wait_for(lambda: re.search(r"webhook on port (\d+)", scheduler.text()), 5, "its port")[1])
        return scheduler
    return begin


def secret(api):
    return {key: base64.b64decode(value).decode() for key, value in
            api.get("secrets", NAME, NAMESPACE).get("data", {}).items()}


def bundle(api, name):
    text = api.get("mutatingwebhookconfigurations", name)["webhooks"][0]["clientConfig"].get("caBundle", "")
    return base64.b64decode(text).decode()


def trusted(api):
    """All configurations trust the certificate of the Secret."""
    now = secret(api).get("tls.crt")
    return now and all(now in bundle(api, name) for name in CONFIGURATIONS)


def ask(port, path, body, roots):
    """(status, answer), from a client that trusts just these certificates and wants this server's name."""
    context = ssl.create_default_context(cadata=roots)
    handler = urllib.request.HTTPSHandler(context=context)
    handler.https_open = lambda request: handler.do_open(_Connection, request, context=context)
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", body.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.build_opener(handler).open(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class _Connection(urllib.request.http.client.HTTPSConnection):
    """Connects to the address of the URL, and expects the certificate of the Service."""

    def connect(self):
        super(urllib.request.http.client.HTTPSConnection, self).connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=HOST)


def review(pod):
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                       "request": {"uid": "u-1", "object": pod}})


def patch_of(answer):
    response = json.loads(answer)["response"]
    assert (response["uid"], response["allowed"]) == ("u-1", True)
    if "patch" not in response:
        assert "patchType" not in response
        return []
    assert response["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(response["patch"]))


def gpu_pod(resource="aliyun.com/gpu-mem", where="containers", metadata=None, **spec):
    container = {"name": "main", "image": "none", "resources": {"limits": {resource: "3"}}}
    return {"metadata": metadata or {"name": "p"}, "spec": {where: [container], **spec}}


SCHEDULER = [{"op": "add", "path": "/spec/schedulerName", "value": "ack-co-scheduler"}]
ANNOTATE = [{"op": "add", "path": "/metadata/annotations/ration.dev~1unit", "value": "128"}]


def test_a_pod_that_asks_for_a_gpu_and_names_no_scheduler_gets_ours(charts, webhook):
    scheduler = webhook()
    wait_for(lambda: trusted(charts), 10, "the certificate is trusted")
    roots = secret(charts)["tls.crt"]
    for path, pod, expected in (
            ("/scheduler-name", gpu_pod(), SCHEDULER),
            ("/scheduler-name", gpu_pod("aliyun.com/gpu-core.percentage"), SCHEDULER),
            ("/scheduler-name", gpu_pod("aliyun.com/gpu", where="initContainers"), SCHEDULER),
            ("/scheduler-name", gpu_pod(schedulerName="default-scheduler"), SCHEDULER),
            ("/scheduler-name", gpu_pod(schedulerName="mine"), []),
            ("/scheduler-name", gpu_pod(nodeName="n1"), []),
            ("/scheduler-name", gpu_pod("nvidia.com/gpu"), []),
            ("/scheduler-name", {"spec": {"containers": None}}, []),
            ("/unit/128", gpu_pod(), [{"op": "add", "path": "/metadata/annotations", "value": {"ration.dev/unit": "128"}}]),
            ("/unit/128", gpu_pod(metadata={"annotations": {"a": "b"}}), ANNOTATE),
            ("/unit/128", gpu_pod(metadata={"annotations": {"ration.dev/unit": "1024"}}), ANNOTATE),
            ("/unit/128", gpu_pod(metadata={"annotations": {"ration.dev/unit": "128"}}), []),
            ("/unit/128", gpu_pod("aliyun.com/gpu"), [])):
        status, answer = ask(scheduler.webhook, path, review(pod), roots)
        assert status == 200 and patch_of(answer) == expected, (path, pod, answer)


def test_what_is_no_review_has_a_sentence_and_no_other_path_is_served(charts, webhook):
    scheduler = webhook()
    wait_for(lambda: trusted(charts), 10, "the certificate is trusted")
    roots = secret(charts)["tls.crt"]
    for path, body, status in (("/scheduler-name", "{", 400), ("/scheduler-name", "[]", 400), ("/scheduler-name", "{}", 400),
                               ("/scheduler-name", review({}).replace("/v1", "/v1beta1"), 400),
                               ("/scheduler-name", review({}).replace('"u-1"', "7"), 400),
                               ("/unit/0", review({}), 404), ("/unit/0128", review({}), 404), ("/unit/", review({}), 404),
                               ("/unit/100000", review({}), 404), ("/filter", review({}), 404), ("/metrics", "", 404)):
        got, answer = ask(scheduler.webhook, path, body, roots)
        assert got == status and answer.strip(), (path, body, got, answer)
    metrics = scheduler.http("GET", "/metrics")[1].decode()
    assert 'ration_webhook_reviews_total{result="bad_request"} 11' in metrics


def test_two_replicas_show_one_certificate_and_a_configuration_that_was_reset_trusts_it_again(charts, webhook):
    one, two = webhook(), webhook()
    wait_for(lambda: trusted(charts), 10, "the certificate is trusted")
    roots = secret(charts)["tls.crt"]
    for scheduler in (one, two):
        wait_for(lambda: "shows the certificate" in scheduler.text(), 15, "it shows the certificate")
        assert ask(scheduler.webhook, "/scheduler-name", review(gpu_pod()), roots)[0] == 200
    # As a helm upgrade that forces its own form does.
    reset = charts.get("mutatingwebhookconfigurations", CONFIGURATIONS[0])
    del reset["webhooks"][0]["clientConfig"]["caBundle"]
    charts.update("mutatingwebhookconfigurations", reset)
    wait_for(lambda: trusted(charts), 15, "it is trusted again")
    assert secret(charts)["tls.crt"] == roots


@pytest.mark.waits
def test_a_certificate_that_ends_soon_is_renewed_and_no_review_fails_meanwhile(charts, webhook, certificate):
    charts.update("secrets", charts.get("secrets", NAME, NAMESPACE) | {"data": certificate(10)})
    old = secret(charts)["tls.crt"]
    schedulers = webhook(), webhook()
    wait_for(lambda: "next.crt" in secret(charts), 15, "the next certificate is made")
    fresh = secret(charts)["next.crt"]
    wait_for(lambda: all(old in bundle(charts, n) and fresh in bundle(charts, n) for n in CONFIGURATIONS), 15, "both are trusted")
    asked = 0
    deadline = time.monotonic() + 90
    done = None
    while time.monotonic() < (done or deadline):
        for scheduler in schedulers:
            # As an API server that has read the configuration a moment ago.
            status, _ = ask(scheduler.webhook, "/scheduler-name", review(gpu_pod()), bundle(charts, CONFIGURATIONS[0]))
            assert status == 200
            asked += 1
        if not done and secret(charts)["tls.crt"] == fresh:
            done = time.monotonic() + 15    # the other replica looks every 10 s
        time.sleep(0.1)
    now = secret(charts)
    assert done and asked > 20
    assert now["tls.crt"] == fresh and "next.crt" not in now and now["previous.crt"] == old
    for scheduler in schedulers:
        assert ask(scheduler.webhook, "/scheduler-name", review(gpu_pod()), fresh)[0] == 200


@pytest.mark.parametrize("data", [
    {"tls.crt": "AAAA", "tls.key": "AAAA"}, {"tls.crt": 7}, "none", {"tls.crt": base64.b64encode(b"x" * 100000).decode()}])
def test_a_secret_that_is_spoiled_is_made_anew(charts, webhook, data):
    charts.update("secrets", charts.get("secrets", NAME, NAMESPACE) | {"data": data})
    scheduler = webhook()
    wait_for(lambda: trusted(charts), 10, "the certificate is trusted")
    assert ask(scheduler.webhook, "/scheduler-name", review(gpu_pod()), secret(charts)["tls.crt"])[0] == 200


@pytest.mark.parametrize("what", ["another key", "another name"])
def test_a_certificate_that_nobody_could_trust_is_made_anew(charts, webhook, certificate, what):
    data = certificate(300, "other.example" if what == "another name" else HOST)
    if what == "another key":
        data["tls.key"] = certificate(300)["tls.key"]
    charts.update("secrets", charts.get("secrets", NAME, NAMESPACE) | {"data": data})
    old = secret(charts)["tls.crt"]
    scheduler = webhook()
    wait_for(lambda: trusted(charts) and secret(charts)["tls.crt"] != old, 10, "another certificate is trusted")
    assert ask(scheduler.webhook, "/scheduler-name", review(gpu_pod()), secret(charts)["tls.crt"])[0] == 200


def test_without_the_secret_the_scheduler_serves_and_says_what_is_missing(api, start):
    scheduler = start("--webhook", f"{NAMESPACE}/{NAME}", "--webhook-listen", "127.0.0.1:0")
    wait_for(lambda: f"secrets/{NAME}" in scheduler.text() and "not found" in scheduler.text(), 10, "what is missing")
    wait_for(scheduler.ready, 10, "ready all the same")


@pytest.mark.parametrize("value", ["", "kube-system", "/x", "kube-system/", "Kube/x", "a/b/c", "-a/b", "a/" + "b" * 64])
def test_a_service_that_is_none_is_refused(value):
    done = subprocess.run([BUILD / "src/scheduler/ration-scheduler", "--webhook", value], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "; must be NAMESPACE/SERVICE" in done.stderr
