"""A stand-in for a training program: says which share of which GPU it was given, then works in slow steps.

It does what the documents ask of a program that shares a GPU without isolation: it computes its fraction
from the environment, and would keep its own memory within it.
"""

import argparse
import os
import random
import signal
import sys
import time

NAMES = ("NVIDIA_VISIBLE_DEVICES", "CGPU_DISABLE")
PREFIX = "ALIYUN_COM_GPU_"


def gpu_environment():
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIX) or name in NAMES}


def fraction(environment):
    """Share of the GPU's memory, or None where the variables are missing or no numbers."""
    try:
        return int(environment[PREFIX + "MEM_CONTAINER"]) / int(environment[PREFIX + "MEM_DEV"])
    except (KeyError, ValueError, ZeroDivisionError):
        return None


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", "--num_batches", type=int, default=1000)
    parser.add_argument("--step_seconds", type=float, default=0.2)
    parser.add_argument("--data_dir")
    parser.add_argument("--batch_size", type=int, default=8)
    # The documents' programs take many more options; those that mean nothing here are accepted.
    return parser.parse_known_args()[0]


def train(arguments):
    """One tiny step of logistic regression at a time, with a line of progress now and then."""
    weight, loss = 0.0, 0.0
    for step in range(arguments.max_steps):
        for _ in range(arguments.batch_size):
            value = random.uniform(-1, 1)
            error = (value > 0) - 1 / (1 + 2.718281828 ** -(weight * value))
            weight += 0.1 * error * value
            loss += 0.01 * (error * error - loss)
        if step in (0, 1, 5) or step % 50 == 0:
            print(f"step {step}: loss {loss:.4f}", flush=True)
        if step + 1 < arguments.max_steps:
            time.sleep(arguments.step_seconds)
    print(f"done after {arguments.max_steps} steps", flush=True)


def main():
    # Pid 1 of a container ignores SIGTERM unless it handles it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    environment = gpu_environment()
    for name, value in environment.items():
        print(f"{name}={value}")
    share = fraction(environment)
    print("the environment variables name no share of a GPU" if share is None else f"share of the GPU's memory: {share:.4f}",
          flush=True)
    train(parse_arguments())


if __name__ == "__main__":
    main()
