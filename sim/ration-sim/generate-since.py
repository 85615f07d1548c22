#!/usr/bin/python3
"""Which CUDA version's driver is the first that exports a name, as a table for ration-sim.

usage: generate-since.py LIBCUDA_SYMS SINCE SOURCE

libcuda.syms has the version of each name in its third column; the other file has NAME VERSION for NVML and where that column
has no version, without the names that are older than all drivers that were looked at.
"""
import sys


def main():
    cuda_path, since_path, source_path = sys.argv[1:]
    with open(cuda_path, encoding="ascii") as f:
        rows = {row[0]: row[2] for row in map(str.split, f)}
    with open(since_path, encoding="ascii") as f:
        rows.update(line.split() for line in f if not line.startswith("#"))
    with open(source_path, "w", encoding="ascii") as f:
        f.write('#include "sim/ration-sim/exports.h"\n\nconst struct export_since exports_since[] = {\n')
        f.write("".join(f'\t{{"{name}", {int(version)}}},\n' for name, version in sorted(rows.items())))
        f.write("};\nconst size_t exports_since_count = sizeof(exports_since) / sizeof(exports_since[0]);\n")


main()
