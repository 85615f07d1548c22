#!/usr/bin/python3
"""Turn the list of exported names and the prototypes into what libcuda exports besides what it simulates.

usage: generate-exports.py SYMS MAP UNSUPPORTED PER_THREAD FUNCTIONS_H...

MAP: a version script. UNSUPPORTED: a weak definition of every name, so that what is simulated elsewhere wins at link
time, and the table for cuGetProcAddress. PER_THREAD: for names with _ptsz whose arguments say which is the stream, a weak
definition that calls the name without, with the thread's own stream for stream 0.
"""
import re
import sys


def read_symbols(path):
    with open(path, encoding="ascii") as f:
        rows = [line.split() for line in f]
    for row in rows:
        if not re.fullmatch(r"cu[A-Z]\w*", row[0]) or len(row) not in (3, 4):
            sys.exit(f"{path}: {' '.join(row)!r} is not NAME LOOKUP VERSION [per-thread]")
    if [row[0] for row in rows] != sorted({row[0] for row in rows}):
        sys.exit(f"{path}: names must be sorted and occur once")
    return rows


def read_prototypes(paths):
    found = {}
    for path in paths:
        with open(path, encoding="ascii") as f:
            for name, arguments in re.findall(r"^CUresult (cu\w+)\(([^;]*)\);", f.read(), re.M):
                found[name] = [a.strip() for a in " ".join(arguments.split()).split(",")]
    return found


def per_thread_definition(name, prototypes):
    base = re.sub(r"_pt(sz|ds)$", "", name)
    arguments = prototypes.get(base)
    if base == name or not arguments or ("CUstream" not in arguments and not name.endswith("_ptds")):
        return None
    declared = ", ".join(f"{a}{'' if a.endswith('*') else ' '}a{i}" for i, a in enumerate(arguments))
    passed = ", ".join(f"a{i} ? a{i} : CU_STREAM_PER_THREAD" if a == "CUstream" else f"a{i}"
                       for i, a in enumerate(arguments))
    return (f"\nCUresult {name}({declared});\n__attribute__((weak)) CUresult {name}({declared})\n"
            f"{{\n\treturn {base}({passed});\n}}\n")


def main():
    syms_path, map_path, unsupported_path, per_thread_path = sys.argv[1:5]
    rows = read_symbols(syms_path)
    prototypes = read_prototypes(sys.argv[5:])
    with open(map_path, "w", encoding="ascii") as f:
        f.write("{\n\tglobal:\n" + "".join(f"\t\t{row[0]};\n" for row in rows) + "\tlocal: *;\n};\n")
    with open(per_thread_path, "w", encoding="ascii") as f:
        f.write('#include "cuda/functions.h"\n')
        definitions = {row[0]: per_thread_definition(row[0], prototypes) for row in rows}
        f.write("".join(filter(None, definitions.values())))
    with open(unsupported_path, "w", encoding="ascii") as f:
        f.write('#include "sim/libcuda/proc-table.h"\n')
        for name, definition in definitions.items():
            if definition:
                f.write(f"\nint {name}(void);\n")
            else:
                f.write(f"\nint {name}(void);\n__attribute__((weak)) int {name}(void)\n"
                        "{\n\treturn not_simulated();\n}\n")
        f.write("\nconst struct proc proc_table[] = {\n")
        for name, lookup, version, *per_thread in sorted(rows, key=lambda row: (row[1], row[0])):
            f.write(f'\t{{"{lookup}", {version}, {int(bool(per_thread))}, (void *){name}}},\n')
        f.write("};\nconst size_t proc_count = sizeof(proc_table) / sizeof(proc_table[0]);\n")


main()
