#!/usr/bin/python3
"""Generates a version script and a file of answers from the list of exported names.

usage: generate-exports.py NAMES MAP SOURCE

Every name gets a weak definition that answers "not supported". A simulated function is defined elsewhere and
replaces it at link time. So a new definition needs no entry anywhere else.
"""
import re
import sys


def main():
    names_path, map_path, source_path = sys.argv[1:]
    with open(names_path, encoding="ascii") as f:
        names = f.read().split()
    for name in names:
        if not re.fullmatch(r"nvml[A-Z]\w*", name):
            sys.exit(f"{names_path}: {name!r} is not the name of an NVML function")
    if names != sorted(set(names)):
        sys.exit(f"{names_path}: names must be sorted and occur once")
    with open(map_path, "w", encoding="ascii") as f:
        f.write("{\n\tglobal:\n" + "".join(f"\t\t{name};\n" for name in names) + "\tlocal: *;\n};\n")
    with open(source_path, "w", encoding="ascii") as f:
        f.write('#include "sim/libnvidia-ml/session.h"\n')
        for name in names:
            if name != "nvmlErrorString":
                f.write(f"\n__attribute__((weak)) nvmlReturn_t {name}(void)\n{{\n\treturn not_simulated();\n}}\n")


main()
