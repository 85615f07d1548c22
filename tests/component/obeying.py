"""Programs in containers that allocate as they are told, and what the agent's samples of them write into the grant."""
import struct

import grants
from isolated import MIB, wait_for

LIVE = 2520 + grants.CARDS_MAX * 256
LIMIT = 2154 * MIB      # 2 of 15 units of 16160 MiB
CONTEXT = 312 * MIB     # of a V100: sim/ration-sim/models.c

# A context, and what the program then sees; then as it is told.
CONTEXT_SCRIPT = """
    ok(cu.cuInit(0))
    ctx = context()
    free = free_bytes()
    say(free)
    """
OBEY = """
    held = []
    while True:
        words = sys.stdin.readline().split()
        if not words:
            break
        if words[0] == 'alloc':
            pointer = c_uint64()
            result = cu.cuMemAlloc_v2(byref(pointer), c_size_t(int(words[1])))
            held += [pointer] * (result == OK)
            say(result)
        elif words[0] == 'free':
            ok(cu.cuMemFree_v2(held.pop()))
            say(0)
        elif words[0] == 'info':
            say(free_bytes())
    """


def tell(program, *words):
    program.process.stdin.write(" ".join(map(str, words)) + "\n")
    program.process.stdin.flush()
    return int(program.reads())


def folder(node, pod, container="main"):
    return node.state / "grants" / pod["metadata"]["uid"] / container


def live(node, pod, card=0):
    """Overhead in bytes, and how often it was looked at."""
    with open(folder(node, pod) / "grant", "rb") as grant:
        grant.seek(LIVE + card * 128)
        return struct.unpack("<QQ", grant.read(16))


def wait_for_look(node, pod, more=2):
    """So many looks from now: the last of them has begun after this call."""
    before = live(node, pod)[1]
    wait_for(lambda: live(node, pod)[1] >= before + more, 10)


def obeying(node, pod, container, **more):
    """A program with a context, which does what tell() says."""
    made = node.program(pod, container, CONTEXT_SCRIPT, OBEY, **more)
    made.reads()
    return made
