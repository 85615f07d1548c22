"""Pages of docs/guide as tests: what a reader types, and what he is told that he will see.

In a page, blocks fenced as `console` are executed in order, in one folder per page where `examples` and `deploy` are those
of the checkout:

    $ command              one line, or several, each but the last ending in a backslash
    what it prints         nothing: only its status counts; `...` is any text, and on a line of its own any lines
    [exit 1]               after the output, of a command that is to fail

A command that only looks (get, describe, logs, exec, inspect, `ration why`, `ration plan` ...) is repeated for a while, as a reader would.
A block fenced as `yaml NAME` is first written into a file of that name. What the reader is not shown is in comments:

    <!-- lab: NODE-SPEC NODE-SPEC -->    the nodes, as lab/lab up wants them
    <!-- run: command -->                executed where it stands
    <!-- needs: RESOURCE -->             until the next heading: left out where neither admissionregistration.k8s.io/v1 nor
                                         resource.k8s.io/v1 has such a resource; the text says from which Kubernetes on it has
"""
import re
import shlex

import yaml

LOOKS = re.compile(r"(kubectl (-n \S+ )?(get|describe|logs|exec|inspect|events|auth)|ration (why|inspect|top|doctor|plan|advise(?!.*--apply)))\b")
FENCE = re.compile(r"^```(.*)$")
HIDDEN = re.compile(r"^<!-- (lab|run|needs): (.*) -->$")


class GuideError(Exception):
    """The page is not written as the grammar says."""


class Step:
    """A command with its line in the page and what is expected; or a file to be written, where `command` is None."""

    def __init__(self, line, command=None, name=None, needs=None):
        self.line = line
        self.command = command
        self.name = name
        self.needs = needs
        self.expected = []
        self.status = 0

    def only_looks(self):
        return self.command is not None and bool(LOOKS.match(self.command))

    def mismatch(self, output):
        """What the output has otherwise, or None. Trailing blanks and a last empty line do not count."""
        if not self.expected:
            return None
        found = [line.rstrip() for line in output.rstrip("\n").split("\n")]
        pattern = ""
        for line in self.expected:
            if line.strip() == "...":
                pattern += r"(?:.*\n)*"
            else:
                pattern += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"\n"
        if re.fullmatch(pattern, "".join(line + "\n" for line in found)):
            return None
        return "expected:\n" + "\n".join(self.expected) + "\nfound:\n" + "\n".join(found)


def parse(text):
    """The lab's nodes, and the steps of a page."""
    nodes, steps, fence, opened, needs = [], [], None, 0, None
    for number, line in enumerate(text.split("\n"), 1):
        hidden = HIDDEN.match(line)
        edge = FENCE.match(line)
        if fence is None and hidden:
            kind, rest = hidden.groups()
            if kind == "lab":
                nodes = shlex.split(rest)
            elif kind == "needs":
                needs = rest
            else:
                steps.append(Step(number, rest, needs=needs))
        elif fence is None and line.startswith("#"):
            needs = None
        elif fence is None and edge:
            fence, opened = edge.group(1).split(), number
            if fence[:1] == ["yaml"] and len(fence) == 2:
                steps.append(Step(number, name=fence[1], needs=needs))
        elif edge:
            fence = None
        elif fence and fence[0] == "console":
            _console(steps, opened, number, line, needs)
        elif fence and fence[0] == "yaml" and len(fence) == 2:
            steps[-1].expected.append(line)
    if fence is not None:
        raise GuideError(f"line {opened}: the block is not closed")
    return nodes, steps


def _console(steps, opened, number, line, needs):
    last = steps[-1] if steps and steps[-1].line > opened else None
    if line.startswith("$ "):
        steps.append(Step(number, line[2:], needs=needs))
    elif last is None:
        raise GuideError(f"line {number}: output without a command")
    elif last.command.endswith("\\"):
        last.command = last.command[:-1] + line.lstrip()
    elif re.fullmatch(r"\[exit [0-9]+\]", line):
        last.status = int(line[6:-1])
    else:
        last.expected.append(line)


def name_scheduler(manifests):
    """YAML in which GPU pods, and what makes them, name ration's scheduler: as a reader writes it where no
    MutatingAdmissionPolicy does."""
    documents = list(yaml.safe_load_all(manifests))
    changed = False
    for document in documents:
        spec = document.get("spec", {})
        spec = spec.get("template", {}).get("spec", spec)
        if "aliyun.com/" in str(spec.get("containers")) and "schedulerName" not in spec:
            spec["schedulerName"], changed = "ack-co-scheduler", True
    return yaml.safe_dump_all(documents) if changed else manifests    # later steps may edit it as it is written
