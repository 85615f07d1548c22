"""Pages of metrics: what a scrape of the agent says."""
import http.client
import json
import re

from fake_apiserver import wait_for
from prometheus_client.parser import text_string_to_metric_families


class Page:
    """A scrape. page("name", label="value") is the value of one sample; 0 if there is none."""

    def __init__(self, text):
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {}
        for family in self.families.values():
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self.samples, f"twice: {key}"
                self.samples[key] = sample.value

    def __call__(self, name, **labels):
        return self.samples.get((name, frozenset(labels.items())), 0)

    def labels(self, name):
        return [dict(labels) for key, labels in self.samples if key == name]


def fetch(world, path):
    """Content type and body."""
    port = wait_for(lambda: re.findall(r"metrics on port (\d+)", world.logged()))[-1]
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == 200
        return response.getheader("Content-Type"), response.read().decode()
    finally:
        connection.close()


def agent_page(world):
    return Page(fetch(world, "/metrics")[1])


def uses(world, pod="a"):
    """What the page /use says about each container of a pod, on each of its GPUs."""
    content, text = fetch(world, "/use")
    assert content == "application/json"
    return [c for c in json.loads(text)["containers"] if c["pod"] == pod]


def use(world, pod="a"):
    """What it says about the first one, or None."""
    return next(iter(uses(world, pod)), None)
