"""video.py decode | encode: the first steps of NVIDIA's video libraries, each with the code that it answered, as JSON.

Offsets and versions of structures: Video Codec SDK 11.1 (ffnvcodec 11.1.5.2: dynlink_cuviddec.h, nvEncodeAPI.h, x86-64);
later drivers take the older versions. Buffers are larger than any structure, and zero."""
import ctypes
import sys
from ctypes import byref, c_int, c_uint, c_void_p

from cudalib import Cuda, say, wait

H264, CHROMA_420, NV12_SURFACE, SIDE = 4, 1, 0, 512
API = 0x0100000b
VERSIONS = {"list": 0x7102000b, "open": 0x7101000b, "init": 0xf105000b, "preset": 0xf104000b, "config": 0xf107000b,
            "input": 0x7101000b, "bitstream": 0x7101000b, "lock_input": 0x7101000b, "picture": 0xf104000b,
            "lock_bitstream": 0x7101000b}
FUNCTIONS = {"count": 16, "initialize": 96, "create_input": 104, "create_bitstream": 120, "encode": 136,
             "lock_bitstream": 144, "unlock_bitstream": 152, "lock_input": 160, "unlock_input": 168, "destroy": 224,
             "open": 240, "preset": 320}
NV12_BUFFER, FRAME, CUDA_DEVICE, LOW_LATENCY = 1, 1, 1, 2
FRAMES = 5


class Guid(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 16)]


CODEC_H264 = Guid.from_buffer_copy(bytes.fromhex("6227c86b634ea44caa851e50f321f6bf"))
PRESET_P1 = Guid.from_buffer_copy(bytes.fromhex("3e8d0afcf845f84c80c7298871590ebf"))


class Block:
    """A structure by offsets."""

    def __init__(self, version=None):
        self.data = ctypes.create_string_buffer(65536)
        if version is not None:
            self.put(0, version)

    def put(self, at, value, kind=c_uint):
        kind.from_buffer(self.data, at).value = value

    def put_guid(self, at, guid):
        ctypes.memmove(ctypes.addressof(self.data) + at, byref(guid), 16)

    def get(self, at, kind=c_uint):
        return kind.from_buffer(self.data, at).value


class Steps:
    def __init__(self):
        self.codes = []

    def __call__(self, name, code):
        """False: it failed, and nothing after it can work."""
        self.codes.append([name, code])
        return code == 0


def library(name):
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        say(missing=str(error))
        sys.exit(0)


def decode():
    cuvid = library("libnvcuvid.so.1")
    cuda = Cuda().open()
    cuda.context()
    step, caps, info, decoder = Steps(), Block(), Block(), c_void_p()
    caps.put(0, H264)
    caps.put(4, CHROMA_420)
    can = step("cuvidGetDecoderCaps", cuvid.cuvidGetDecoderCaps(caps.data)) and caps.get(24, ctypes.c_ubyte) == 1
    for at, value in ((0, SIDE), (8, SIDE), (16, 8), (56, SIDE), (64, SIDE), (96, SIDE), (104, SIDE), (112, 2)):
        info.put(at, value, ctypes.c_ulong)
    for at, value in ((24, H264), (28, CHROMA_420), (88, NV12_SURFACE)):
        info.put(at, value)
    if can and step("cuvidCreateDecoder", cuvid.cuvidCreateDecoder(byref(decoder), info.data)):
        say(waits=True)
        wait()
        step("cuvidDestroyDecoder", cuvid.cuvidDestroyDecoder(decoder))
    say(codes=step.codes, can=bool(can), engines=caps.get(25, ctypes.c_ubyte), width=caps.get(28))


class Encoder:
    def __init__(self, table, step):
        self.table, self.step, self.session = table, step, c_void_p()

    def call(self, name, *args):
        function = ctypes.CFUNCTYPE(c_int)(self.table.get(FUNCTIONS[name], c_void_p))
        return self.step(name, function(*args))

    def start(self, context):
        opened, preset, init = Block(VERSIONS["open"]), Block(VERSIONS["preset"]), Block(VERSIONS["init"])
        opened.put(4, CUDA_DEVICE)
        opened.put(8, context.value, c_void_p)
        opened.put(24, API)
        if not self.call("open", opened.data, byref(self.session)):
            return False
        preset.put(8, VERSIONS["config"])
        if not self.call("preset", self.session, CODEC_H264, PRESET_P1, c_int(LOW_LATENCY), preset.data):
            return False
        init.put_guid(4, CODEC_H264)
        init.put_guid(20, PRESET_P1)
        for at, value in ((36, SIDE), (40, SIDE), (44, SIDE), (48, SIDE), (52, 30), (56, 1), (64, 1), (96, SIDE), (100, SIDE),
                          (136, LOW_LATENCY)):
            init.put(at, value)
        init.put(88, ctypes.addressof(preset.data) + 8, c_void_p)
        return self.call("initialize", self.session, init.data)

    def frames(self):
        """Bytes of the encoded frames."""
        source, bits, total = Block(VERSIONS["input"]), Block(VERSIONS["bitstream"]), 0
        source.put(4, SIDE)
        source.put(8, SIDE)
        source.put(16, NV12_BUFFER)
        if not self.call("create_input", self.session, source.data) or not self.call("create_bitstream", self.session, bits.data):
            return 0
        for number in range(FRAMES):
            size = self.frame(source.get(24, c_void_p), bits.get(16, c_void_p), number)
            if size is None:
                break
            total += size
        return total

    def frame(self, source, bits, number):
        lock, picture, told = Block(VERSIONS["lock_input"]), Block(VERSIONS["picture"]), Block(VERSIONS["lock_bitstream"])
        lock.put(8, source, c_void_p)
        if not self.call("lock_input", self.session, lock.data):
            return None
        pitch = lock.get(24)
        ctypes.memset(lock.get(16, c_void_p), 16 + 40 * number, pitch * SIDE * 3 // 2)
        self.call("unlock_input", self.session, c_void_p(source))
        for at, value in ((4, SIDE), (8, SIDE), (12, pitch), (24, number), (64, NV12_BUFFER), (68, FRAME)):
            picture.put(at, value)
        picture.put(40, source, c_void_p)
        picture.put(48, bits, c_void_p)
        if not self.call("encode", self.session, picture.data):
            return None
        told.put(8, bits, c_void_p)
        if not self.call("lock_bitstream", self.session, told.data):
            return None
        self.call("unlock_bitstream", self.session, c_void_p(bits))
        return told.get(36)


def encode():
    nvenc = library("libnvidia-encode.so.1")
    cuda = Cuda().open()
    context = cuda.context()
    step, table, size = Steps(), Block(VERSIONS["list"]), 0
    if step("NvEncodeAPICreateInstance", nvenc.NvEncodeAPICreateInstance(table.data)):
        encoder = Encoder(table, step)
        if encoder.start(context):
            size = encoder.frames()
            say(waits=True)
            wait()
        if encoder.session:
            encoder.call("destroy", encoder.session)
    say(codes=sorted(map(list, {tuple(code) for code in step.codes})), bytes=size)


if __name__ == "__main__":
    {"decode": decode, "encode": encode}[sys.argv[1]]()
