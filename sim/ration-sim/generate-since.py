#!/usr/bin/python3
"""Which CUDA version's driver is the first that exports a name, and which no longer does, as a table for ration-sim.

usage: generate-since.py LIBCUDA_SYMS SINCE SOURCE

libcuda.syms has the version of each name in its third column; the other file has NAME VERSION for NVML and where that column
has no version, and a third column for names that later drivers lack, without the names that are older than all drivers that were looked at.
"""
import sys


def main():
    cuda_path, since_path, source_path = sys.argv[1:]
    with open(cuda_path, encoding="ascii") as f:
        rows = {row[0]: [row[2], 0] for row in map(str.split, f)}
    with open(since_path, encoding="ascii") as f:
        for name, since, *gone in (line.split() for line in f if not line.startswith("#")):
            rows[name] = [since, *gone, 0][:2]
    with open(source_path, "w", encoding="ascii") as f:
        f.write('#include "sim/ration-sim/exports.h"\n\nconst struct export_row export_rows[] = {\n')
        f.write("".join(f'\t{{"{name}", {int(since)}, {int(gone)}}},\n' for name, (since, gone) in sorted(rows.items())))
        f.write("};\nconst size_t export_row_count = sizeof(export_rows) / sizeof(export_rows[0]);\n")


main()
