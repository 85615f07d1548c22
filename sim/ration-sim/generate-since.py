#!/usr/bin/python3
"""Generates a table for ration-sim: the CUDA version of the first driver that exports a name, and of the first that lacks it again.

usage: generate-since.py LIBCUDA_SYMS SINCE SOURCE

libcuda.syms has the version of each name in its third column. SINCE has rows NAME VERSION for NVML, and for names without a
version in that column. Its third column is for names that later drivers lack. Names that are older than all examined drivers
are not in SINCE.
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
