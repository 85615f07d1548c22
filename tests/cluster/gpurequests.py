"""What pods and templates of pods ask for: what can never be met, with the words of its refusal, and what can."""
import copy

from gpupods import GPU_COUNT, GPU_MEM, container, pod

CORE = "aliyun.com/gpu-core.percentage"
GPU = "aliyun.com/gpu"
MULTIPLE = "must be a multiple of 5 between 5 and 100"
NOT_ASKED = ("no container can ask for it: ask for aliyun.com/gpu-mem, and for several GPUs set the label "
             "aliyun.com/gpu-count of the pod")


def with_core(name, core, units=2, init=None, **more):
    """core of the only container; init: (units, core) of an init container before it."""
    made = pod(name, containers=[container("c0", units)], **more)
    made["spec"]["containers"][0].setdefault("resources", {"limits": {}})["limits"] |= {CORE: core}
    if init:
        first = container("i0", init[0])
        first.setdefault("resources", {"limits": {}})["limits"][CORE] = init[1]
        made["spec"]["initContainers"] = [first]
    return made


def cards(name, count, *units, **more):
    return pod(name, *units, labels={GPU_COUNT: count}, **more)


def counting(name, value, units=None, where="containers", **more):
    """A container that asks for aliyun.com/gpu-count."""
    asks = container("counts", units, **more)
    asks.setdefault("resources", {"limits": {}})["limits"][GPU_COUNT] = value
    made = pod(name, containers=[container("plain")])
    made["spec"].setdefault(where, []).append(asks)
    return made


def whole(name, value, units=None):
    """A container that asks for whole GPUs, beside one that asks for units of gpu-mem."""
    made = pod(name, containers=[container("c0", units), container("w0")])
    made["spec"]["containers"][1].setdefault("resources", {"limits": {}})["limits"][GPU] = value
    return made


def templates(made, name):
    """The pod as the template of all eight kinds."""
    labels = {"app": name, **made["metadata"].get("labels", {})}
    template = {"metadata": {"labels": labels}, "spec": {**made["spec"]}}
    restarting = copy.deepcopy(template)
    restarting["spec"]["restartPolicy"] = "Always"
    job = {"template": template}
    selector = {"selector": {"matchLabels": {"app": name}}, "template": restarting}

    def obj(api, kind, spec):
        body = copy.deepcopy({"template": spec["template"]} if kind == "PodTemplate" else {"spec": spec})
        return {"apiVersion": api, "kind": kind, "metadata": {"name": f"{name}-{kind.lower()}"}, **body}
    return [obj("apps/v1", "Deployment", selector), obj("apps/v1", "ReplicaSet", selector),
            obj("apps/v1", "DaemonSet", selector),
            obj("apps/v1", "StatefulSet", {**selector, "serviceName": "s"}), obj("batch/v1", "Job", job),
            obj("batch/v1", "CronJob", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}),
            obj("v1", "ReplicationController", {"selector": {"app": name}, "template": restarting}),
            obj("v1", "PodTemplate", {"template": template})]


def wrong_requests():
    """{name: (pod, words)}, the words those of ration-scheduler."""
    says = f'container "c0": {CORE} is '
    cases = {f"v{i}": (with_core(f"v{i}", value), f"{says}{value}: {MULTIPLE}")
             for i, value in enumerate(("0", 3, 4, "7", 12, 101, 105, 200, "1k", "9223372036854775807", "1e30"))}
    cases |= {
        "alone": (with_core("alone", 30, None), f"{says}30: needs {GPU_MEM} beside it"),
        "none": (with_core("none", 30, 0), f"{says}30: needs {GPU_MEM} beside it"),
        "both": (with_core("both", 7, None), f"{says}7: {MULTIPLE}"),
        "init": (with_core("init", 30, init=(1, 8)), f'container "i0": {CORE} is 8: {MULTIPLE}'),
        "first": (with_core("first", 9, init=(1, 8)), f'container "i0": {CORE} is 8: {MULTIPLE}'),
        "sidecar": (with_core("sidecar", 30, init=(1, 8)), f'container "i0": {CORE} is 8: {MULTIPLE}'),
        "indivisible": (cards("indivisible", "2", 7), f'container "c0": {GPU_MEM} is 7: must be a multiple of 2, the value '
                        'of label aliyun.com/gpu-count'),
        "second": (cards("second", "4", 8, 6), f'container "c1": {GPU_MEM} is 6: must be a multiple of 4, the value of '
                   'label aliyun.com/gpu-count'),
        "together": (with_core("together", 30, 4, labels={GPU_COUNT: "2"}),
                     f"{says}30: is not possible together with label aliyun.com/gpu-count"),
        "whole": (whole("whole", 1, 2), f'container "w0": {GPU} is not possible in a pod that asks for {GPU_MEM} too'),
        "counts": (counting("counts", 1), f'container "counts": {GPU_COUNT} is 1: {NOT_ASKED}'),
        "counts-too": (counting("counts-too", 2, 4), f'container "counts": {GPU_COUNT} is 2: {NOT_ASKED}'),
        "counts-init": (counting("counts-init", "4", where="initContainers"),
                        f'container "counts": {GPU_COUNT} is 4: {NOT_ASKED}'),
        "counts-sidecar": (counting("counts-sidecar", 1, where="initContainers", restartPolicy="Always"),
                           f'container "counts": {GPU_COUNT} is 1: {NOT_ASKED}')}
    cases["sidecar"][0]["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    for i, value in enumerate(("0", "00", "02", "65", "100", "two", "1.5", "")):
        cases[f"l{i}"] = (cards(f"l{i}", value, 4),
                          f'label aliyun.com/gpu-count is "{value}": must be a whole number from 1 to 64')
    return cases


RIGHT_REQUESTS = [
    whole("whole-alone", 2), whole("whole-none", 0, 2),
    *(with_core(f"r{i}", value) for i, value in enumerate((5, 10, "30", 95, 100))),
    with_core("with-init", 30, init=(1, 50)), cards("one", "1", 7), with_core("one-core", 30, 3, labels={GPU_COUNT: "1"}),
    cards("two", "2", 8), cards("most", "64", 64),
    pod("no-limits", containers=[container("c")], labels={GPU_COUNT: "x"}), cards("nothing", "x", 0)]
