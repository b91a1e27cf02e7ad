"""Compiles one .cu file to PTX through NVRTC's C interface.

usage: compile.py LIBNVRTC SOURCE HEADER... > PTX

The names that the compiler sees are bare file names, so that no path of this machine gets into the output.
"""

import ctypes
import os
import sys

OPTIONS = [b"--gpu-architecture=compute_80", b"--std=c++17"]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def text(nvrtc, program, size_of, take):
    size = ctypes.c_size_t()
    check(nvrtc, size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    check(nvrtc, take(program, buffer))
    return buffer.value


def check(nvrtc, code):
    if code != 0:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        sys.exit("nvrtc: " + nvrtc.nvrtcGetErrorString(code).decode())


def main():
    library, source, *headers = sys.argv[1:]
    nvrtc = ctypes.CDLL(library)
    strings = ctypes.c_char_p * len(headers)
    program = ctypes.c_void_p()
    check(nvrtc, nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), read(source), os.path.basename(source).encode(), len(headers),
        strings(*map(read, headers)), strings(*(os.path.basename(h).encode() for h in headers))))
    code = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*OPTIONS))
    log = text(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    sys.stderr.write(log.decode())
    check(nvrtc, code)
    sys.stdout.buffer.write(text(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX))


if __name__ == "__main__":
    main()
