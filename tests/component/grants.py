"""Grant and usage files as docs/internals/grant.md lays them out, written without the code that reads them."""
import struct

CARDS_MAX, SLOTS = 64, 1024
CORE_WHOLE = 1_000_000    # millionths
GRANT_SIZE = 2520 + CARDS_MAX * (256 + 128)
USAGE_SIZE = 128 + CARDS_MAX * 128 + SLOTS * (64 + 16 * 64)


def fnv1a(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return value


def grant_bytes(cuda_library, nvml_library, cards, container="a test", version=1, readable_from=1):
    """cards: (uuid, PCI bus id, limit in bytes, physical bytes)."""
    constant = struct.pack("<II256s1024s1024s184x", len(cards), readable_from, container.encode(), str(cuda_library).encode(),
                           str(nvml_library).encode())
    constant += b"".join(struct.pack("<64s32sQQ144x", uuid.encode(), bus.encode(), limit, physical)
                         for uuid, bus, limit, physical in cards)
    constant = constant.ljust(2520 + CARDS_MAX * 256 - 24, b"\0")
    head = b"RAGRANT1" + struct.pack("<II", version, GRANT_SIZE)
    live = b"".join(struct.pack("<16xQ8xQ88x", limit, limit) for _, _, limit, _ in cards)
    return (head + struct.pack("<Q", fnv1a(head + constant)) + constant + live).ljust(GRANT_SIZE, b"\0")


def set_limit(grant, card, limit):
    """As the keeper does it, in place."""
    with open(grant, "r+b") as file:
        file.seek(2520 + CARDS_MAX * 256 + card * 128 + 16)
        file.write(struct.pack("<Q", limit))


def set_core(grant, card, share, rate=None):
    """Computing power in millionths of the card; 0: not controlled."""
    with open(grant, "r+b") as file:
        file.seek(2520 + CARDS_MAX * 256 + card * 128 + 40)
        file.write(struct.pack("<QQ", share, share if rate is None else rate))


def usage_bytes(card_count, version=1, readable_from=1):
    head = b"RAUSAGE1" + struct.pack("<IIIIIII", version, USAGE_SIZE, SLOTS, card_count, 0, 0, readable_from)
    return head.ljust(USAGE_SIZE, b"\0")


def write(folder, cuda_library, nvml_library, cards, **more):
    """Both files in folder; returns the path of the grant."""
    (folder / "grant").write_bytes(grant_bytes(cuda_library, nvml_library, cards, **more))
    (folder / "usage").write_bytes(usage_bytes(len(cards)))
    return folder / "grant"


def charge(usage, card, size, pids=()):
    """As if `size` bytes were charged on this card, by processes with these pids."""
    data = bytearray(usage.read_bytes())
    struct.pack_into("<Q", data, 128 + card * 128, size >> 12)
    struct.pack_into("<I", data, 24, len(pids))
    for slot, pid in enumerate(pids):
        struct.pack_into("<Q", data, 128 + CARDS_MAX * 128 + slot * (64 + 16 * 64), pid)
    usage.write_bytes(data)
