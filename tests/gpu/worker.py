"""worker.py ROW: asks one row of one GPU; prints what it tells as lines of JSON. The GPU comes by RATION_GPU_TOLD."""
import json
import os
import sys

import all_rows    # noqa: F401
from gpu import Broken, Crashed, Gpu, NotRun
from rows import ROWS, Teller


def write(line):
    print(json.dumps(line), flush=True)


def main():
    gpu = Gpu(json.loads(os.environ.pop("RATION_GPU_TOLD")))
    gpu.wait_idle()
    try:
        ROWS[sys.argv[1]].ask(gpu, Teller(write))
    except NotRun as why:
        write({"end": "not run", "why": str(why)})
    except Crashed as why:
        write({"end": "crashed", "why": str(why)})
    except Broken as why:
        write({"end": "failed", "why": str(why)})
    else:
        write({"end": "done"})


if __name__ == "__main__":
    main()
