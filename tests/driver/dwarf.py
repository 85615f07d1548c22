"""What a compiler makes of declarations: calling conventions and layouts, read from DWARF by readelf."""
import re
import subprocess

LEAF = {"DW_TAG_base_type", "DW_TAG_enumeration_type"}


def compile_types(folder, headers, expressions, options=()):
    """{key: ABI} for {key: C expression or type}; the key names a variable that is a pointer to it."""
    source = folder / "types.c"
    source.write_text("".join(f"#include {header}\n" for header in headers) +
                      "".join(f"__typeof__({text}) *p_{key};\n" for key, text in expressions.items()))
    target = folder / "types.o"
    subprocess.run(["gcc", "-std=gnu11", "-w", "-g", "-gdwarf-4", "-c", *options, "-o", target, source], check=True)
    dies = read_dies(subprocess.run(["readelf", "--debug-dump=info", "-W", target], capture_output=True, text=True,
                                    check=True).stdout)
    variables = {die["DW_AT_name"]: die for die in dies.values() if die["tag"] == "DW_TAG_variable"}
    return {key: abi(dies, dies[variables[f"p_{key}"]["DW_AT_type"]].get("DW_AT_type")) for key in expressions}


def read_dies(text):
    """{offset: {"tag": ..., attribute: value, "children": [...]}}"""
    dies, stack, die = {}, [], None
    for line in text.splitlines():
        if start := re.match(r"\s*<(\d+)><(\w+)>: Abbrev Number: \d+ \((DW_TAG_\w+)\)", line):
            depth, offset = int(start[1]), int(start[2], 16)
            die = dies[offset] = {"tag": start[3], "children": []}
            del stack[depth:]
            if stack:
                stack[-1]["children"].append(die)
            stack.append(die)
        elif die is not None and (row := re.match(r"\s*<\w+>\s+(DW_AT_\w+)\s*: (.*)", line)):
            die[row[1]] = value(row[1], row[2].strip())
    return dies


def value(attribute, text):
    """Newer releases of readelf name the form of the value in front of it, and the type behind a reference to it."""
    if attribute == "DW_AT_type":
        return int(re.search(r"<(?:0x)?([0-9a-f]+)>", text)[1], 16)
    if attribute == "DW_AT_name":
        return re.sub(r"^\(\w+\) ", "", text.rsplit(": ", 1)[-1])
    number = re.match(r"(?:\(\w+\) )?(-?\d+|0x[0-9a-f]+)$", text)
    return int(number[1], 0) if number else text


def abi(dies, offset):
    """A type as a caller sees it in registers and memory; what a pointer points to does not matter here."""
    if offset is None:
        return "void"
    die = dies[offset]
    if die["tag"] == "DW_TAG_subroutine_type":
        arguments = [abi(dies, c["DW_AT_type"]) for c in die["children"] if c["tag"] == "DW_TAG_formal_parameter"]
        return f"{abi(dies, die.get('DW_AT_type'))}({', '.join(arguments)})"
    if die["tag"] == "DW_TAG_pointer_type":
        return "pointer"
    if die["tag"] == "DW_TAG_base_type":
        return ("float" if "float" in str(die["DW_AT_encoding"]) else "int") + str(8 * die["DW_AT_byte_size"])
    if die["tag"] == "DW_TAG_enumeration_type":
        return "int" + str(8 * die["DW_AT_byte_size"])
    if die["tag"] in ("DW_TAG_structure_type", "DW_TAG_union_type"):
        if "DW_AT_byte_size" not in die:
            return "incomplete"
        return f"{die['DW_AT_byte_size']} bytes: {' '.join(f'{at}+{size}' for at, size in widest(leaves(dies, offset)))}"
    if die["tag"] == "DW_TAG_array_type":
        return f"{count(die)} x {abi(dies, die['DW_AT_type'])}"
    return abi(dies, die.get("DW_AT_type"))    # typedef, const, volatile


def widest(leaves):
    """Without what lies within another one, in a union, of which ours have only the members that are used."""
    return sorted((at, size) for at, size in leaves
                  if not any((at, size) != (a, s) and a <= at and at + size <= a + s for a, s in leaves))


def count(array):
    total = 1
    for child in array["children"]:
        total *= int(child.get("DW_AT_upper_bound", child.get("DW_AT_count", 0) - 1)) + 1
    return total


def byte_size(dies, offset):
    die = dies[offset]
    if die["tag"] == "DW_TAG_array_type":
        return count(die) * byte_size(dies, die["DW_AT_type"])
    return die["DW_AT_byte_size"] if "DW_AT_byte_size" in die else byte_size(dies, die["DW_AT_type"])


def leaves(dies, offset, base=0):
    """(offset, size) of all that holds a value. An array of numbers is one leaf: char[4] and int are the same bytes."""
    die = dies[offset]
    if die["tag"] in ("DW_TAG_structure_type", "DW_TAG_union_type"):
        return {leaf for member in die["children"] if member["tag"] == "DW_TAG_member"
                for leaf in leaves(dies, member["DW_AT_type"], base + member.get("DW_AT_data_member_location", 0))}
    if die["tag"] == "DW_TAG_array_type":
        size = byte_size(dies, die["DW_AT_type"])
        if size == 1 or dies[die["DW_AT_type"]]["tag"] in LEAF:
            return {(base, count(die) * size)}
        return {leaf for i in range(count(die)) for leaf in leaves(dies, die["DW_AT_type"], base + i * size)}
    if die["tag"] in LEAF | {"DW_TAG_pointer_type"}:
        return {(base, byte_size(dies, offset))}
    return leaves(dies, die["DW_AT_type"], base)
