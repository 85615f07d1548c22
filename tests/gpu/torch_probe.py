"""torch_probe.py sizes | fill MIB | train STEPS: what PyTorch meets on this card, as a line of JSON."""
import json
import sys
import time

import torch

MIB = 1 << 20


def sizes():
    free, total = torch.cuda.mem_get_info()
    return {"free": free, "total": total, "properties": torch.cuda.get_device_properties(0).total_memory}


def fill(mib):
    pieces, exception = [], None
    while exception is None:
        try:
            pieces.append(torch.ones(mib * MIB // 4, device="cuda"))
        except torch.cuda.OutOfMemoryError as error:
            exception = type(error).__name__
    allocated = len(pieces) * mib * MIB
    pieces.pop()
    again = torch.ones(mib * MIB // 4, device="cuda")
    return {"exception": exception, "allocated": allocated, "again": again.is_cuda, "sum": float(again.sum())}


def train(steps):
    model = torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())])
    model = model.cuda()
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.randn(256, 1024, device="cuda")

    def step():
        optimizer.zero_grad()
        (model(data) - data).square().mean().backward()
        optimizer.step()

    for _ in range(20):
        step()
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return {"step_ms": (time.monotonic() - began) / steps * 1e3}


if __name__ == "__main__":
    print(json.dumps({"sizes": sizes, "fill": fill, "train": train}[sys.argv[1]](*map(int, sys.argv[2:]))))
