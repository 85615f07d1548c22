#!/usr/bin/python3
"""Generates the exports of libcuda that are not simulated, from the list of exported names and the prototypes.

usage: generate-exports.py SYMS BEFORE_INIT MAP UNSUPPORTED PER_THREAD CHECKED LABELS FUNCTIONS_H...

MAP: a version script.
UNSUPPORTED: a weak definition of every name, which a simulated function replaces at link time; and the table for
cuGetProcAddress.
PER_THREAD: for names with _ptsz whose arguments show which one is the stream, a weak definition. It calls the function
without the suffix, with the thread's own stream instead of stream 0.
CHECKED: every other function. It answers as BEFORE_INIT says until the driver is initialised, and then calls the simulated
function.
LABELS: a header that gives the simulated functions another name for the linker.
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
                found[name] = [] if arguments == "void" else [a.strip() for a in " ".join(arguments.split()).split(",")]
    return found


def declaration(arguments):
    """The arguments as they are declared, called a0, a1 ..."""
    return ", ".join(f"{a}{'' if a.endswith('*') else ' '}a{i}" for i, a in enumerate(arguments)) or "void"


def per_thread_definition(name, prototypes):
    base = re.sub(r"_pt(sz|ds)$", "", name)
    arguments = prototypes.get(base)
    if base == name or not arguments or ("CUstream" not in arguments and not name.endswith("_ptds")):
        return None
    passed = ", ".join(f"a{i} ? a{i} : CU_STREAM_PER_THREAD" if a == "CUstream" else f"a{i}"
                       for i, a in enumerate(arguments))
    return (f"\nCUresult {name}({declaration(arguments)});\n"
            f"__attribute__((weak)) CUresult {name}({declaration(arguments)})\n{{\n\treturn {base}({passed});\n}}\n")


def read_before_init(path):
    """{name: rows}. A row: its first version, whether cuInit must have failed, the checks, and the final answer."""
    found = {}
    with open(path, encoding="ascii") as f:
        for line in f:
            row = re.fullmatch(r"(cu\w+)(?: since=(\d+))?( failed)?((?: \d(?:>\d+)?=\d+)*)(?: (\d+))?\n", line)
            own = re.fullmatch(r"(cu\w+) own\n", line)
            if own:
                found[own[1]] = "own"
            elif not row and not line.startswith("#"):
                sys.exit(f"{path}: bad row {line!r}; the comment at the top of the file explains rows")
            elif row:
                name, since, failed, checks, answer = row.groups()
                found.setdefault(name, []).append((int(since or 0), bool(failed), checks.split(), int(answer or 3)))
    return found


def answers(rows, arguments):
    """C code that returns a function's answer before cuInit: that of the last row that applies."""
    values = [f"a{i}.type" if a == "CUmemLocation" else f"(uintptr_t)a{i}" for i, a in enumerate(arguments)]
    text = ""
    for since, failed, checks, answer in sorted(rows, key=lambda row: (row[1], row[0]), reverse=True):
        text += f"\tif ({'driver_init_failed() && ' if failed else ''}driver_version() >= {since}) {{\n"
        for check in checks:
            argument, most, code = re.fullmatch(r"(\d)(?:>(\d+))?=(\d+)", check).groups()
            condition = f"{values[int(argument)]} > {most}" if most else f"{values[int(argument)]} == 0"
            text += f"\t\tif ({condition})\n\t\t\treturn {code};\n"
        text += f"\t\treturn {answer};\n\t}}\n"
    return text + "\treturn CUDA_ERROR_NOT_INITIALIZED;\n"


def checked_definition(name, rows, prototypes):
    # All checked arguments of a function without a prototype are passed in registers.
    arguments = prototypes.get(re.sub(r"_pt(sz|ds)$", "", name), ["uintptr_t"] * 6)
    declared, passed = declaration(arguments), ", ".join(f"a{i}" for i in range(len(arguments)))
    return (f"\nCUresult simulated_{name}({declared});\n"
            f"__attribute__((weak)) CUresult simulated_{name}({declared})\n{{\n\treturn not_simulated();\n}}\n"
            f"\nCUresult {name}({declared});\nCUresult {name}({declared})\n{{\n"
            f"\tif (driver_has_started())\n\t\treturn simulated_{name}({passed});\n{answers(rows, arguments)}}}\n")


def write_checked(checked_path, labels_path, names, before_init, prototypes):
    """Includes the variants for per-thread streams that do not call the function itself."""
    checked = {name: before_init.get(re.sub(r"_pt(sz|ds)$", "", name), []) for name in names
               if before_init.get(name) != "own" and not per_thread_definition(name, prototypes)}
    unknown = before_init.keys() - set(names)
    if unknown:
        sys.exit(f"functions that libcuda does not have: {', '.join(sorted(unknown))}")
    with open(checked_path, "w", encoding="ascii") as f:
        f.write('#include <stdint.h>\n\n#include "cuda/functions.h"\n#include "sim/libcuda/proc-table.h"\n#include "sim/libcuda/started.h"\n')
        f.write("".join(checked_definition(name, rows, prototypes) for name, rows in checked.items()))
    with open(labels_path, "w", encoding="ascii") as f:
        f.write("#pragma once\n\n")
        f.write("".join(f'__typeof__({name}) {name} __asm__("simulated_{name}");\n' for name in checked if name in prototypes))


def main():
    syms_path, before_init_path, map_path, unsupported_path, per_thread_path, checked_path, labels_path = sys.argv[1:8]
    rows = read_symbols(syms_path)
    prototypes = read_prototypes(sys.argv[8:])
    write_checked(checked_path, labels_path, [row[0] for row in rows], read_before_init(before_init_path), prototypes)
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
