"""libnvidia-ml.so.1 as its clients in other languages see it: by ctypes, with the layouts that NVIDIA's own Python
bindings declare. Each script runs in a process of its own, as the library finds its tree by its own path."""
import os
import subprocess
import sys
import textwrap

import pytest

import cuda_clients
from driver_tree import NEWEST, SYMBOLS, run

# Layouts as in nvidia-ml-py 13.615; GUARD bytes behind each buffer show a write past its end.
PRELUDE = """
import ctypes, os, sys, threading, time
from ctypes import *
lib = CDLL(sys.argv[1])
SUCCESS, UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TOO_SMALL = 0, 1, 2, 3, 4, 6, 7
TIMEOUT, LOST, VERSION = 10, 15, 25
lib.nvmlErrorString.restype = c_char_p

class PciInfo(Structure):
    _fields_ = [("busIdLegacy", c_char * 16), ("domain", c_uint), ("bus", c_uint), ("device", c_uint),
                ("pciDeviceId", c_uint), ("pciSubSystemId", c_uint), ("busId", c_char * 32)]
class PciInfoExt(Structure):
    _fields_ = [("version", c_uint), ("domain", c_uint), ("bus", c_uint), ("device", c_uint), ("pciDeviceId", c_uint),
                ("pciSubSystemId", c_uint), ("baseClass", c_uint), ("subClass", c_uint), ("busId", c_char * 32)]
class Memory(Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]
class Memory2(Structure):
    _fields_ = [("version", c_uint), ("total", c_ulonglong), ("reserved", c_ulonglong), ("free", c_ulonglong),
                ("used", c_ulonglong)]
class Utilization(Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]
class Process1(Structure):
    _fields_ = [("pid", c_uint), ("usedGpuMemory", c_ulonglong)]
class Process2(Structure):
    _fields_ = [("pid", c_uint), ("usedGpuMemory", c_ulonglong), ("gpuInstanceId", c_uint),
                ("computeInstanceId", c_uint)]
class Detail(Structure):
    _fields_ = Process2._fields_ + [("usedGpuCcProtectedMemory", c_ulonglong)]
class DetailList(Structure):
    _fields_ = [("version", c_uint), ("mode", c_uint), ("numProcArrayEntries", c_uint), ("procArray", POINTER(Detail))]
class Event(Structure):
    _fields_ = [("device", c_void_p), ("eventType", c_ulonglong), ("eventData", c_ulonglong),
                ("gpuInstanceId", c_uint), ("computeInstanceId", c_uint)]
class Value(Union):
    _fields_ = [("dVal", c_double), ("uiVal", c_uint), ("ullVal", c_ulonglong)]
class Field(Structure):
    _fields_ = [("fieldId", c_uint32), ("scopeId", c_uint32), ("timestamp", c_int64), ("latencyUsec", c_int64),
                ("valueType", c_uint), ("nvmlReturn", c_uint), ("value", Value)]
class Uuid(Structure):
    class V(Union):
        _fields_ = [("str", c_char * 41), ("bytes", c_ubyte * 16)]
    _fields_ = [("version", c_uint), ("type", c_uint), ("value", V)]

def device(index=0):
    handle = c_void_p()
    result = lib.nvmlDeviceGetHandleByIndex_v2(index, byref(handle))
    assert result == SUCCESS, result
    return handle

def text(function, *args, size=96):
    buffer = create_string_buffer(size)
    result = function(*args, buffer, size)
    assert result == SUCCESS, (function.__name__, result)
    return buffer.value.decode()

def number(name, *args, kind=c_uint):
    value = kind()
    result = getattr(lib, name)(*args, byref(value))
    assert result == SUCCESS, (name, result)
    return value.value

def guarded(size):
    buffer = create_string_buffer(size + 64)
    memset(buffer, 0x5a, size + 64)
    return buffer

def guard_holds(buffer, size):
    return buffer.raw[size:] == b"\\x5a" * 64
"""


def start_script(tree, script, *args, init=True):
    library = tree.path / "lib" / "libnvidia-ml.so.1"
    env = dict(os.environ)
    env.pop("RATION_SIM_DIR", None)
    if b"libasan.so" in library.read_bytes():
        # Python itself is not instrumented: the sanitizer has to be first, and Python's own leaks are not ours.
        env["LD_PRELOAD"] = run("gcc", "-print-file-name=libasan.so").stdout.strip()
        env["ASAN_OPTIONS"] = "detect_leaks=0"
    start = "assert lib.nvmlInit_v2() == SUCCESS\n" if init else ""
    return subprocess.Popen([sys.executable, "-c", PRELUDE + start + textwrap.dedent(script), library, *map(str, args)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def script(tree, text, *args, init=True):
    process = start_script(tree, text, *args, init=init)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return out


@pytest.fixture
def two_cards(tree):
    tree.up("--gpus", "1x16160MiB+1x40960MiB", "--driver-version", NEWEST)
    return tree


# Start and end

def test_nothing_answers_before_init_or_after_shutdown(two_cards):
    """Every symbol, whatever its arguments: UNINITIALIZED comes before any look at them."""
    script(two_cards, """
        names = [n for n in open(sys.argv[2]).read().split()
                 if n not in ("nvmlErrorString", "nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown",
                              "nvmlInternalGetExportTable", "nvmlRetry_NvRmControl", "nvmlDeviceGetHandleByUUIDV",
                              "nvmlDeviceGetTemperatureV", "nvmlSystemGetNVMLVersion")]    # tests/driver has their answers
        for again in range(2):
            for name in names:
                result = getattr(lib, name)(*[c_void_p(None)] * 6)
                assert result == UNINITIALIZED, (name, result)
            assert lib.nvmlInit_v2() == SUCCESS
            assert lib.nvmlShutdown() == SUCCESS
        """, SYMBOLS, init=False)


def test_every_symbol_survives_arguments_of_nothing(two_cards):
    script(two_cards, """
        names = [n for n in open(sys.argv[2]).read().split() if n not in ("nvmlErrorString", "nvmlShutdown", "nvmlRetry_NvRmControl")]
        zeroes_are_fine = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags"}
        for name in names:
            result = getattr(lib, name)(*[c_void_p(None)] * 6)
            assert result in ((SUCCESS,) if name in zeroes_are_fine else (INVALID, NOT_SUPPORTED, NOT_FOUND)), \\
                (name, result)
        """, SYMBOLS)


def test_every_symbol_survives_a_device_and_then_nothing(two_cards):
    script(two_cards, """
        names = [n for n in open(sys.argv[2]).read().split() if n.startswith("nvmlDevice")
                 and "GetCount" not in n and "GetHandleBy" not in n]
        for name in names:
            result = getattr(lib, name)(device(), *[c_void_p(None)] * 5)
            assert result in (INVALID, NOT_SUPPORTED, NOT_FOUND) or "Set" in name, (name, result)
        """, SYMBOLS)


def test_every_symbol_refuses_what_is_no_device(two_cards):
    script(two_cards, """
        real = device().value
        names = [n for n in open(sys.argv[2]).read().split() if n.startswith("nvmlDevice")]
        for wrong in (1, real + 1, real + 8, real - 4, real + 100000, 2**64 - 1):
            for name in names:
                if "GetHandleBy" in name or "GetCount" in name:
                    continue
                result = getattr(lib, name)(c_void_p(wrong), *[c_void_p(None)] * 5)
                assert result in (INVALID, NOT_SUPPORTED), (name, wrong, result)
        """, SYMBOLS)


def test_init_is_counted(two_cards):
    script(two_cards, """
        for init in (lib.nvmlInit, lib.nvmlInit_v2, lambda: lib.nvmlInitWithFlags(0), lambda: lib.nvmlInitWithFlags(1)):
            assert init() == SUCCESS
        for _ in range(4):
            assert lib.nvmlShutdown() == SUCCESS
            assert number("nvmlDeviceGetCount_v2") == 2
        assert lib.nvmlShutdown() == SUCCESS
        assert lib.nvmlDeviceGetCount_v2(byref(c_uint())) == UNINITIALIZED and lib.nvmlShutdown() == SUCCESS
        assert lib.nvmlInitWithFlags(0x80) == INVALID
        """)


def test_error_texts_are_nvidias(two_cards):
    script(two_cards, """
        assert lib.nvmlErrorString(0) == b"Success"
        assert lib.nvmlErrorString(15) == b"GPU is lost"
        assert lib.nvmlErrorString(999) == b"Unknown Error"
        assert lib.nvmlErrorString(-1) == b"Unknown Error"
        assert lib.nvmlErrorString(12345) == b"Unknown Error"
        assert all(lib.nvmlErrorString(i) != b"Unknown Error" for i in range(30))
        """, init=False)


def test_threads_may_start_ask_and_stop_at_will(two_cards):
    script(two_cards, """
        failures = []
        def work():
            for _ in range(150):
                if lib.nvmlInit_v2() != SUCCESS:
                    failures.append("init")
                handle, memory, events = c_void_p(), Memory(), c_void_p()
                if lib.nvmlDeviceGetHandleByIndex_v2(1, byref(handle)) or \\
                   lib.nvmlDeviceGetMemoryInfo(handle, byref(memory)) or memory.total != 40960 << 20:
                    failures.append("memory")
                # Another thread's last shutdown frees all sets: ours is inside our own init.
                if lib.nvmlEventSetCreate(byref(events)) or lib.nvmlEventSetFree(events):
                    failures.append("events")
                if lib.nvmlShutdown() != SUCCESS:
                    failures.append("shutdown")
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not failures, failures[:5]
        assert lib.nvmlDeviceGetCount_v2(byref(c_uint())) == UNINITIALIZED
        """, init=False)


# What cards are called, and how they are found

def test_system_queries(two_cards):
    script(two_cards, """
        assert text(lib.nvmlSystemGetDriverVersion) == "615.71.09"
        assert text(lib.nvmlSystemGetNVMLVersion) == "13.615.71.09"
        assert number("nvmlSystemGetCudaDriverVersion", kind=c_int) == 13040
        assert number("nvmlSystemGetCudaDriverVersion_v2", kind=c_int) == 13040
        assert text(lib.nvmlSystemGetProcessName, os.getpid(), size=256) == sys.orig_argv[0]
        name = create_string_buffer(64)
        assert lib.nvmlSystemGetProcessName(2**31 - 1, name, 64) == NOT_FOUND
        assert lib.nvmlSystemGetProcessName(os.getpid(), name, 2) == TOO_SMALL
        """)


def test_a_card_is_found_by_index_uuid_serial_and_bus(two_cards):
    uuid, serial = (two_cards.cards()[1][key] for key in ("uuid", "serial"))
    script(two_cards, """
        uuid, serial = (a.encode() for a in sys.argv[2:4])
        want, got = device(1).value, c_void_p()
        for name, key in (("UUID", uuid), ("Serial", serial), ("PciBusId", b"00000000:00:0A.0"),
                          ("PciBusId_v2", b"0000:00:0a.0"), ("PciBusId_v2", b"00:0A.0")):
            assert getattr(lib, "nvmlDeviceGetHandleBy" + name)(key, byref(got)) == SUCCESS and got.value == want, name
        for name, key in (("UUID", uuid[:-1]), ("UUID", uuid + b"0"), ("UUID", b""), ("UUID", b"x" * 5000),
                          ("Serial", serial + b"1"), ("PciBusId_v2", b"00:1A.0"), ("PciBusId_v2", b"00:0A.1"),
                          ("PciBusId_v2", b"zz"), ("PciBusId_v2", b"0" * 5000)):
            assert getattr(lib, "nvmlDeviceGetHandleBy" + name)(key, byref(got)) == NOT_FOUND, (name, key[:50])
        assert lib.nvmlDeviceGetHandleByIndex_v2(2, byref(got)) == INVALID
        assert lib.nvmlDeviceGetHandleByIndex(0xffffffff, byref(got)) == INVALID
        ascii = Uuid(0x1000034, 1)
        ascii.value.str = uuid
        binary = Uuid(0x1000034, 2)
        binary.value.bytes[:] = bytes.fromhex(uuid[4:].decode().replace("-", ""))
        for key in (ascii, binary):
            assert lib.nvmlDeviceGetHandleByUUIDV(byref(key), byref(got)) == SUCCESS and got.value == want
        assert lib.nvmlDeviceGetHandleByUUIDV(byref(Uuid(0x2000034, 1)), byref(got)) == VERSION
        assert lib.nvmlDeviceGetHandleByUUIDV(byref(Uuid(0x1000034, 7)), byref(got)) == INVALID
        """, uuid, serial)


def test_texts_fit_exactly_or_are_refused_untouched(two_cards):
    script(two_cards, """
        for function, length in ((lib.nvmlDeviceGetUUID, 40), (lib.nvmlDeviceGetName, 20)):
            buffer = guarded(length + 1)
            assert function(device(), buffer, length) == TOO_SMALL
            assert buffer.raw == b"\\x5a" * (length + 65)
            assert function(device(), buffer, length + 1) == SUCCESS
            assert guard_holds(buffer, length + 1) and len(buffer.raw.split(b"\\0")[0]) == length
            assert function(device(), None, 96) == INVALID
        """)


def test_pci_info_of_every_version_fills_its_own_size(two_cards):
    script(two_cards, """
        for name, size in (("nvmlDeviceGetPciInfo_v3", 68), ("nvmlDeviceGetPciInfo_v2", 52), ("nvmlDeviceGetPciInfo", 32)):
            buffer = guarded(size)
            assert getattr(lib, name)(device(1), buffer) == SUCCESS
            assert guard_holds(buffer, size), name
            info = PciInfo.from_buffer(buffer)
            assert info.busIdLegacy == b"0000:00:0A.0" and (info.domain, info.bus, info.device) == (0, 0, 10), name
        assert sizeof(PciInfo) == 68
        info = PciInfo()
        lib.nvmlDeviceGetPciInfo_v3(device(1), byref(info))
        assert info.busId == b"00000000:00:0A.0" and info.pciDeviceId == 0x20b010de
        ext = PciInfoExt(0x1000040)
        assert lib.nvmlDeviceGetPciInfoExt(device(0), byref(ext)) == SUCCESS
        assert ext.busId == b"00000000:00:09.0" and (ext.baseClass, ext.subClass) == (3, 2)
        assert lib.nvmlDeviceGetPciInfoExt(device(0), byref(PciInfoExt(5))) == VERSION
        """)


def test_numbers_of_a_card(two_cards):
    script(two_cards, """
        d = device(1)
        assert number("nvmlDeviceGetIndex", d) == 1 and number("nvmlDeviceGetMinorNumber", d) == 1
        assert number("nvmlDeviceGetBrand", device(0)) == 2 and number("nvmlDeviceGetBrand", d) == 14
        assert number("nvmlDeviceGetArchitecture", device(0)) == 5 and number("nvmlDeviceGetArchitecture", d) == 7
        assert number("nvmlDeviceGetPersistenceMode", d) == 1 and number("nvmlDeviceGetDisplayActive", d) == 0
        assert number("nvmlDeviceGetComputeMode", d) == 0 and number("nvmlDeviceGetPerformanceState", d) == 0
        assert number("nvmlDeviceGetTemperature", d, 0) == 33
        assert number("nvmlDeviceGetPowerUsage", d) == 52000 and number("nvmlDeviceGetEnforcedPowerLimit", d) == 400000
        assert number("nvmlDeviceGetClockInfo", d, 1) == 1410 and number("nvmlDeviceGetClockInfo", d, 2) == 1215
        assert number("nvmlDeviceGetTotalEccErrors", d, 1, 0, kind=c_ulonglong) == 0
        major, minor = c_int(), c_int()
        assert lib.nvmlDeviceGetCudaComputeCapability(d, byref(major), byref(minor)) == SUCCESS
        assert (major.value, minor.value) == (8, 0)
        pair = c_uint(), c_uint()
        assert lib.nvmlDeviceGetMigMode(d, byref(pair[0]), byref(pair[1])) == SUCCESS and pair[0].value == 0
        assert lib.nvmlDeviceGetMigMode(device(0), byref(pair[0]), byref(pair[1])) == NOT_SUPPORTED
        count, clocks = c_uint(0), (c_uint * 4)()
        assert lib.nvmlDeviceGetSupportedMemoryClocks(d, byref(count), None) == TOO_SMALL and count.value == 1
        assert lib.nvmlDeviceGetSupportedMemoryClocks(d, byref(c_uint(4)), clocks) == SUCCESS and clocks[0] == 1215
        assert lib.nvmlDeviceGetSupportedGraphicsClocks(d, 1215, byref(c_uint(4)), clocks) == SUCCESS
        assert clocks[0] == 1410
        assert lib.nvmlDeviceGetSupportedGraphicsClocks(d, 7, byref(c_uint(4)), clocks) == NOT_FOUND
        fan = c_uint()
        assert lib.nvmlDeviceGetFanSpeed(d, byref(fan)) == NOT_SUPPORTED
        assert lib.nvmlDeviceGetNvLinkState(d, 0, byref(fan)) == NOT_SUPPORTED
        assert lib.nvmlDeviceGetTemperature(d, 7, byref(fan)) == INVALID
        assert lib.nvmlDeviceGetClockInfo(d, 9, byref(fan)) == INVALID
        """)


def test_persistence_mode_can_be_set_by_root_and_is_everybodys(two_cards):
    script(two_cards, """
        want = SUCCESS if os.geteuid() == 0 else NO_PERMISSION
        assert lib.nvmlDeviceSetPersistenceMode(device(), 0) == want
        assert lib.nvmlDeviceSetPersistenceMode(device(), 2) == INVALID
        """)
    if os.geteuid() == 0:
        assert "...  Off  |" in two_cards.table()


def test_memory_of_both_versions(tree):
    tree.up_file({"gpus": [{"memoryMiB": 16384, "idleUsedMiB": 334}]})
    script(tree, """
        m, m2 = Memory(), Memory2(0x2000028)
        assert lib.nvmlDeviceGetMemoryInfo(device(), byref(m)) == SUCCESS
        assert (m.total >> 20, m.used >> 20, m.free >> 20) == (16384, 334, 16050)
        assert lib.nvmlDeviceGetMemoryInfo_v2(device(), byref(m2)) == SUCCESS
        assert (m2.total, m2.used, m2.free, m2.reserved) == (m.total, m.used, m.free, 0)
        assert lib.nvmlDeviceGetMemoryInfo_v2(device(), byref(Memory2(0))) == VERSION
        bar1 = Memory()
        assert lib.nvmlDeviceGetBAR1MemoryInfo(device(), byref(bar1)) == SUCCESS and bar1.total == 16384 << 20
        """)


def test_numa_node_and_links_as_described(tree):
    tree.up_file({"gpus": [{"memoryMiB": 1, "numaNode": 1, "links": [1, 1]}, {"memoryMiB": 1, "numaNode": 1, "links": [0, 0]},
                           {"memoryMiB": 1, "numaNode": 0}, {"memoryMiB": 1}]})
    script(tree, """
        nodes = (c_ulong * 2)()
        assert lib.nvmlDeviceGetMemoryAffinity(device(0), 2, nodes, 0) == SUCCESS and list(nodes) == [2, 0]
        assert lib.nvmlDeviceGetMemoryAffinity(device(3), 2, nodes, 0) == NOT_SUPPORTED
        assert number("nvmlDeviceGetTopologyCommonAncestor", device(0), device(1)) == 40
        assert number("nvmlDeviceGetTopologyCommonAncestor", device(0), device(2)) == 50
        assert number("nvmlDeviceGetNvLinkState", device(0), 1) == 1
        assert number("nvmlDeviceGetP2PStatus", device(0), device(1), 2) == 0
        assert number("nvmlDeviceGetP2PStatus", device(0), device(2), 2) == 5
        state = c_uint()
        assert lib.nvmlDeviceGetNvLinkState(device(0), 2, byref(state)) == INVALID
        assert lib.nvmlDeviceGetNvLinkState(device(2), 0, byref(state)) == NOT_SUPPORTED
        cpus = (c_ulong * 4)()
        assert lib.nvmlDeviceGetCpuAffinity(device(0), 4, cpus) == SUCCESS and cpus[0] & 1
        """)


def test_links_lead_to_cards_and_switches(tree):
    tree.up_file({"gpus": [{"memoryMiB": 1, "pcieSwitch": 1, "links": [1, "switch"]},
                           {"memoryMiB": 1, "pcieSwitch": 1, "pcieTree": 1, "links": [0, "switch"]},
                           {"memoryMiB": 1, "pcieTree": 1, "hostBridge": 1}, {"memoryMiB": 1, "hostBridge": 1}]})
    script(tree, """
        levels = [number("nvmlDeviceGetTopologyCommonAncestor", device(a), device(b)) for a, b in
                  ((0, 1), (1, 2), (2, 3), (0, 3))]
        assert levels == [10, 20, 30, 40]
        assert [number("nvmlDeviceGetNvLinkRemoteDeviceType", device(0), n) for n in (0, 1)] == [0, 2]
        class Pci(Structure):
            _fields_ = [("old", c_char * 16), ("numbers", c_uint * 5), ("bus", c_char * 32)]
        there, own = Pci(), Pci()
        assert lib.nvmlDeviceGetNvLinkRemotePciInfo_v2(device(0), 0, byref(there)) == SUCCESS
        assert lib.nvmlDeviceGetPciInfo_v3(device(1), byref(own)) == SUCCESS and bytes(there) == bytes(own)
        assert lib.nvmlDeviceGetNvLinkRemotePciInfo_v2(device(0), 1, byref(there)) == SUCCESS
        assert there.bus not in (b"", own.bus)
        assert lib.nvmlDeviceGetNvLinkRemotePciInfo_v2(device(0), 2, byref(there)) == INVALID
        """)


# Processes

def test_process_lists_of_every_version(two_cards, holders):
    holder = holders(two_cards, 1, 300)
    script(two_cards, """
        pid = int(sys.argv[2])
        for suffix, kind in (("", Process1), ("_v2", Process2), ("_v3", Process2)):
            function = getattr(lib, "nvmlDeviceGetComputeRunningProcesses" + suffix)
            count = c_uint(0)
            assert function(device(1), byref(count), None) == TOO_SMALL and count.value == 1
            buffer = guarded(sizeof(kind))
            assert function(device(1), byref(count), buffer) == SUCCESS and count.value == 1
            assert guard_holds(buffer, sizeof(kind))
            info = kind.from_buffer(buffer)
            assert (info.pid, info.usedGpuMemory) == (pid, 300 << 20)
            if kind is Process2:
                assert info.gpuInstanceId == info.computeInstanceId == 0xffffffff
            count = c_uint(0)
            assert function(device(0), byref(count), None) == SUCCESS and count.value == 0
            assert function(device(1), byref(c_uint(5)), None) == INVALID
            for other in ("Graphics", "MPSCompute"):
                count = c_uint(0)
                function = getattr(lib, f"nvmlDeviceGet{other}RunningProcesses{suffix}")
                assert function(device(1), byref(count), None) == SUCCESS and count.value == 0
        entries = (Detail * 2)()
        details = DetailList(0x1000018, 0, 0, None)
        assert lib.nvmlDeviceGetRunningProcessDetailList(device(1), byref(details)) == TOO_SMALL
        assert details.numProcArrayEntries == 1
        details = DetailList(0x1000018, 0, 2, entries)
        assert lib.nvmlDeviceGetRunningProcessDetailList(device(1), byref(details)) == SUCCESS
        assert (details.numProcArrayEntries, entries[0].pid) == (1, pid)
        assert lib.nvmlDeviceGetRunningProcessDetailList(device(1), byref(DetailList(1, 0, 0, None))) == VERSION
        count = c_uint(0)
        assert lib.nvmlDeviceGetProcessUtilization(device(1), None, byref(count), c_ulonglong(0)) == NOT_FOUND
        """, holder.pid)


def test_more_memory_than_there_is_shows_as_a_full_card(two_cards, holders):
    """The table of processes is writable from containers."""
    holders(two_cards, 0, 100)
    table = two_cards.path / "state" / "processes"
    offset = 64 + 64    # processes.h: of the first slot, and there of the words for each card
    word = int.from_bytes(table.read_bytes()[offset:offset + 8], "little")
    assert word % 2**42 == 100 << 20
    with open(table, "r+b") as f:
        f.seek(offset)
        f.write((2**64 - 1).to_bytes(8, "little"))
    script(two_cards, """
        m = Memory()
        assert lib.nvmlDeviceGetMemoryInfo(device(0), byref(m)) == SUCCESS
        assert (m.used, m.free) == (m.total, 0)
        """)


# Events and faults

WAIT = """
set = c_void_p()
assert lib.nvmlEventSetCreate(byref(set)) == SUCCESS
for i in range(2):
    assert lib.nvmlDeviceRegisterEvents(device(i), c_ulonglong(0xa), set) == SUCCESS
print("ready", flush=True)
"""


def test_a_waiting_client_is_woken_by_a_fault(two_cards):
    process = start_script(two_cards, WAIT + textwrap.dedent("""
        event, start = Event(), time.monotonic()
        assert lib.nvmlEventSetWait_v2(set, byref(event), 20000) == SUCCESS
        assert time.monotonic() - start < 15
        assert event.device == device(1).value and (event.eventType, event.eventData) == (8, 79)
        assert event.gpuInstanceId == 0xffffffff
        assert lib.nvmlEventSetWait_v2(set, byref(event), 0) == TIMEOUT
        """))
    assert process.stdout.readline() == "ready\n"
    two_cards.fault(1, "xid", 79)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err


def test_waiting_takes_as_long_as_was_asked(two_cards):
    script(two_cards, WAIT + textwrap.dedent("""
        event = Event()
        for ms in (0, 1, 30, 250):
            start = time.monotonic()
            assert lib.nvmlEventSetWait_v2(set, byref(event), ms) == TIMEOUT
            waited = (time.monotonic() - start) * 1000
            assert ms <= waited < ms + 200, (ms, waited)
        """))


def test_a_first_version_wait_writes_no_instances(two_cards):
    process = start_script(two_cards, WAIT + textwrap.dedent("""
        buffer = guarded(24)
        assert lib.nvmlEventSetWait(set, buffer, 20000) == SUCCESS
        assert guard_holds(buffer, 24)
        """))
    assert process.stdout.readline() == "ready\n"
    two_cards.fault(0, "xid", 13)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err


def test_events_of_before_the_registration_and_of_other_cards_are_not_delivered(two_cards):
    two_cards.fault(0, "xid", 48)
    process = start_script(two_cards, """
        set, event = c_void_p(), Event()
        assert lib.nvmlEventSetCreate(byref(set)) == SUCCESS
        assert lib.nvmlDeviceRegisterEvents(device(0), c_ulonglong(2), set) == SUCCESS
        print("ready", flush=True)
        assert lib.nvmlEventSetWait_v2(set, byref(event), 20000) == SUCCESS
        assert event.device == device(0).value and event.eventType == 2
        assert lib.nvmlEventSetWait_v2(set, byref(event), 0) == TIMEOUT
        """)
    assert process.stdout.readline() == "ready\n"
    two_cards.fault(1, "ecc")
    two_cards.fault(0, "ecc")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err


def test_a_flood_of_events_loses_the_oldest_only(two_cards):
    process = start_script(two_cards, WAIT + textwrap.dedent("""
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.02)
        event, seen = Event(), []
        while lib.nvmlEventSetWait_v2(set, byref(event), 0) == SUCCESS:
            seen.append(event.eventData)
        assert seen == list(range(45, 301)), seen
        """), two_cards.path / "go")
    assert process.stdout.readline() == "ready\n"
    for number in range(1, 301):
        two_cards.fault(0, "xid", number)
    (two_cards.path / "go").touch()
    out, err = process.communicate(timeout=60)
    (two_cards.path / "go").unlink()
    assert process.returncode == 0, out + err


def test_event_sets_are_checked(two_cards):
    script(two_cards, """
        set, event = c_void_p(), Event()
        assert lib.nvmlEventSetCreate(byref(set)) == SUCCESS
        assert lib.nvmlDeviceRegisterEvents(device(), c_ulonglong(0x4), set) == NOT_SUPPORTED
        assert lib.nvmlDeviceRegisterEvents(device(), c_ulonglong(8), c_void_p(1234)) == INVALID
        assert lib.nvmlEventSetWait_v2(set, None, 0) == INVALID
        assert lib.nvmlEventSetWait(set, None, 0) == INVALID
        assert lib.nvmlEventSetFree(set) == SUCCESS
        assert lib.nvmlEventSetFree(set) == INVALID
        assert lib.nvmlEventSetWait_v2(set, byref(event), 0) == INVALID
        sets = []
        while True:
            result = lib.nvmlEventSetCreate(byref(set))
            if result:
                break
            sets.append(set.value)
            assert len(sets) <= 256
        assert result == 23 and len(sets) == 256
        assert lib.nvmlShutdown() == SUCCESS and lib.nvmlInit_v2() == SUCCESS
        assert lib.nvmlEventSetFree(c_void_p(sets[0])) == INVALID
        assert lib.nvmlEventSetCreate(byref(set)) == SUCCESS
        assert number("nvmlDeviceGetSupportedEventTypes", device(), kind=c_ulonglong) == 0xa
        """)


def test_a_set_freed_by_another_thread_ends_the_wait(two_cards):
    script(two_cards, """
        set, event, results = c_void_p(), Event(), []
        assert lib.nvmlEventSetCreate(byref(set)) == SUCCESS
        thread = threading.Thread(target=lambda: results.append(lib.nvmlEventSetWait_v2(set, byref(event), 20000)))
        thread.start()
        time.sleep(0.2)
        start = time.monotonic()
        assert lib.nvmlEventSetFree(set) == SUCCESS
        thread.join()
        assert results == [INVALID] and time.monotonic() - start < 5
        """)


def test_a_shutdown_in_another_thread_ends_the_wait(two_cards):
    script(two_cards, """
        set, event, results = c_void_p(), Event(), []
        assert lib.nvmlEventSetCreate(byref(set)) == SUCCESS
        thread = threading.Thread(target=lambda: results.append(lib.nvmlEventSetWait_v2(set, byref(event), 20000)))
        thread.start()
        time.sleep(0.2)
        assert lib.nvmlShutdown() == SUCCESS
        thread.join()
        assert results == [UNINITIALIZED]
        """)


def test_a_lost_card_answers_nothing_and_others_go_on(two_cards):
    process = start_script(two_cards, "lost, fine = device(0), device(1)\n" + WAIT + textwrap.dedent("""
        event, memory = Event(), Memory()
        assert lib.nvmlEventSetWait_v2(set, byref(event), 20000) == SUCCESS and event.eventData == 79
        assert lib.nvmlEventSetWait_v2(set, byref(event), 20000) == LOST
        assert lib.nvmlDeviceGetMemoryInfo(lost, byref(memory)) == LOST
        assert lib.nvmlDeviceGetUUID(lost, create_string_buffer(96), 96) == LOST
        assert lib.nvmlDeviceGetMemoryInfo(fine, byref(memory)) == SUCCESS
        assert number("nvmlDeviceGetCount_v2") == 2
        assert lib.nvmlDeviceGetHandleByIndex_v2(0, byref(c_void_p())) == LOST
        """))
    assert process.stdout.readline() == "ready\n"
    two_cards.fault(0, "lost")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err


def test_the_recovery_action_follows_the_fault(two_cards):
    ask = """
        field = (Field * 2)(Field(230), Field(99999))
        assert lib.nvmlDeviceGetFieldValues(device(0), 2, field) == SUCCESS
        assert field[0].nvmlReturn == SUCCESS and field[1].nvmlReturn == NOT_SUPPORTED
        assert field[0].value.uiVal == int(sys.argv[2]), field[0].value.uiVal
        assert lib.nvmlDeviceGetFieldValues(device(0), 0, field) == INVALID
        assert lib.nvmlDeviceGetFieldValues(device(0), -1, field) == INVALID
        """
    script(two_cards, ask, 0)
    two_cards.fault(0, "xid", 31)
    script(two_cards, ask, 0)
    two_cards.fault(0, "xid", 95)
    script(two_cards, ask, 1)
    two_cards.fault(0, "heal")
    script(two_cards, ask, 0)


def test_an_ecc_error_is_counted_until_the_reset_and_for_life(two_cards):
    two_cards.fault(0, "ecc")
    two_cards.fault(0, "ecc")
    ask = """
        counts = [number("nvmlDeviceGetTotalEccErrors", device(0), kind, counter, kind=c_ulonglong)
                  for kind in (0, 1) for counter in (0, 1)]
        assert counts == eval(sys.argv[2]), counts
        """
    ask = ask.replace("device(0), kind, counter, kind=c_ulonglong", "device(0), c_uint(kind), c_uint(counter), kind=c_ulonglong")
    script(two_cards, ask, [0, 0, 2, 2])
    two_cards.fault(0, "heal")
    script(two_cards, ask, [0, 0, 0, 2])


def test_cards_that_are_replaced_are_lost_until_the_next_init(two_cards):
    process = start_script(two_cards, WAIT + textwrap.dedent("""
        old, memory = device(0), Memory()
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.02)
        assert lib.nvmlDeviceGetMemoryInfo(old, byref(memory)) == LOST
        assert lib.nvmlShutdown() == SUCCESS and lib.nvmlInit_v2() == SUCCESS
        assert lib.nvmlDeviceGetMemoryInfo(device(2), byref(memory)) == SUCCESS and memory.total >> 20 == 15079
        """), two_cards.path / "go")
    assert process.stdout.readline() == "ready\n"
    two_cards.up("--gpus", "3x15079MiB")
    (two_cards.path / "go").touch()
    out, err = process.communicate(timeout=60)
    (two_cards.path / "go").unlink()
    assert process.returncode == 0, out + err


@pytest.mark.parametrize("damage", ["", "x", "size"], ids=["empty", "short", "zeroes"])
def test_a_damaged_state_is_a_version_mismatch_not_a_crash(two_cards, damage):
    cards = two_cards.path / "state" / "cards"
    cards.write_bytes(b"\0" * cards.stat().st_size if damage == "size" else damage.encode())
    script(two_cards, "assert lib.nvmlInit_v2() == 18", init=False)


def test_garbage_in_the_state_after_init_does_not_crash_a_client(two_cards):
    """A container can write the file while others have it mapped; only the file's length is beyond its reach here."""
    process = start_script(two_cards, "cards = [device(i) for i in range(2)]\n" + WAIT + textwrap.dedent("""
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.02)
        names = [n for n in open(sys.argv[3]).read().split() if n.startswith("nvmlDeviceGet")]
        big = create_string_buffer(4096)
        for card in cards:
            for name in names:
                lib_args = [c_void_p(addressof(big))] * 3
                if name.startswith("nvmlDeviceGetHandle") or "FieldValues" in name or "Affinity" in name or \\
                   "RunningProcess" in name or "ProcessUtil" in name:
                    continue
                getattr(lib, name)(card, *lib_args)
        for function in (lib.nvmlDeviceGetUUID, lib.nvmlDeviceGetName, lib.nvmlDeviceGetSerial):
            buffer = guarded(50)
            function(cards[0], buffer, 50)
            assert guard_holds(buffer, 50)
        event = Event()
        for _ in range(1000):
            lib.nvmlEventSetWait_v2(set, byref(event), 0)
        """), two_cards.path / "go", SYMBOLS)
    assert process.stdout.readline() == "ready\n"
    with open(two_cards.path / "state" / "cards", "r+b") as f:
        f.seek(16)  # magic, version and size stay
        f.write(b"\xfe" * (248 + 64 * 448 - 16))
        f.seek(248 + 64 * 448 + 8)  # not retired, or all calls would end there: last_event and the ring
        f.write(b"\xfe" * (56 + 256 * 32))
    (two_cards.path / "go").touch()
    out, err = process.communicate(timeout=60)
    (two_cards.path / "go").unlink()
    assert process.returncode == 0, out + err


# A client that nobody here wrote

@pytest.mark.plain    # its Python brings libraries that do not bear the sanitizer
def test_nvidias_own_python_bindings_work(two_cards, holders):
    holder = holders(two_cards, 1, 64)
    done = subprocess.run([cuda_clients.python(), "-c", textwrap.dedent(f"""
        import pynvml as n
        n.nvmlInit()
        assert n.nvmlDeviceGetCount() == 2
        d = n.nvmlDeviceGetHandleByIndex(1)
        assert n.nvmlDeviceGetName(d) == "NVIDIA A100-SXM4-40GB"
        assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(d))) == 1
        assert n.nvmlDeviceGetMemoryInfo(d).used == 64 << 20
        assert n.nvmlDeviceGetMemoryInfo(d, n.nvmlMemory_v2).total == 40960 << 20
        assert [p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(d)] == [{holder.pid}]
        assert n.nvmlDeviceGetPciInfo(d).busId == "00000000:00:0A.0"
        assert n.nvmlSystemGetDriverVersion() == "{NEWEST}"
        assert n.nvmlDeviceGetCudaComputeCapability(d) == (8, 0)
        assert n.nvmlDeviceGetMigMode(d) == [0, 0]
        try:
            n.nvmlDeviceGetFanSpeed(d)
        except n.NVMLError_NotSupported:
            n.nvmlShutdown()
        """)], env=cuda_clients.environment(two_cards.path / "lib"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
