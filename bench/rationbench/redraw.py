"""Draws lists of pods from a list, with other shares of pods without a GPU, for a part, for one and for several. No weight of a
rule was chosen with the drawn lists."""
import csv
import random

from .programs import BenchError

COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
FACTOR = 4    # each class is drawn from a quarter of to four times as often as it is in the list


def class_of(pod):
    """How many GPUs the pod asks for (none, a part of one, one, several), and whether it names models."""
    gpus = "none" if pod["num_gpu"] == "0" else "several" if pod["num_gpu"] != "1" else "one" if pod["gpu_milli"] == "1000" else "part"
    return gpus, bool(pod["gpu_spec"])


def redraw(pods, seed):
    """A list of as many pods."""
    draw, classes = random.Random(seed), {}
    for pod in pods:
        classes.setdefault(class_of(pod), []).append(pod)
    weights = [len(classes[name]) * FACTOR ** draw.uniform(-1, 1) for name in sorted(classes)]
    return [draw.choice(classes[name]) for name in draw.choices(sorted(classes), weights, k=len(pods))]


def redrawn(path, seed):
    """Draws from the list of pods at `path` and returns the text of the new list."""
    try:
        with open(path, newline="", encoding="ascii") as file:
            rows = list(csv.DictReader(file, quoting=csv.QUOTE_NONE))    # as bench/packing/trace.c reads it
    except (OSError, ValueError, csv.Error) as error:
        raise BenchError(f"cannot read {path}: {error}") from error
    if not rows or not all(row.get(column) is not None for row in rows for column in COLUMNS):
        raise BenchError(f"{path}: not a list of pods with the columns {', '.join(COLUMNS)}")
    return "\n".join([",".join(COLUMNS), *(",".join(pod[column] for column in COLUMNS) for pod in redraw(rows, seed))]) + "\n"
