#!/usr/bin/env python3
"""Reads handoff messages of pagestamp, version 1, by the tables in the documentation of `pagestamp::handoff::wire`.

    reader.py FILE...   prints each message as one line of JSON; a file named *.hex holds the bytes in hex
    reader.py FOLDER    compares each good_*.bin with its good_*.json, expects each bad_*.bin to be refused, and compares
                        the *.hex files beside this one with the good_*.json of the same name

What a model means to a page (whether its rows fill whole bytes, how large a page becomes) is not checked here.
"""

import json
import pathlib
import sys

MAX_MESSAGE_BYTES = 64 << 20
HEADER_BYTES = 16


class Refused(Exception):
    """The bytes are no message."""


def demand(true, why):
    if not true:
        raise Refused(why)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        demand(count <= len(self.data) - self.at, f"cut short at byte {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, count):
        return int.from_bytes(self.take(count), "little")

    def u32(self):
        return self.number(4)

    def u64(self):
        return self.number(8)

    def non_zero(self, count=4):
        number = self.number(count)
        demand(number != 0, f"0 before byte {self.at}")
        return number

    def zero(self, count):
        demand(self.number(count) == 0, f"not 0 before byte {self.at}")

    def code(self, least, most):
        code = self.u32()
        demand(least <= code <= most, f"code {code} before byte {self.at}")
        return code

    def range(self, least=0):
        first, end = self.u32(), self.u32()
        demand(end - first >= least, f"range {first}..{end} before byte {self.at}")
        return [first, end]

    def text(self, least, most):
        count = self.u32()
        demand(least <= count <= most, f"text of {count} bytes at byte {self.at}")
        try:
            return self.take(count).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"no UTF-8 before byte {self.at}") from error

    def list(self, item_bytes, item):
        count = self.u32()
        demand(count * item_bytes <= len(self.data) - self.at, f"{count} items at byte {self.at}")
        return [item() for _ in range(count)]

    def message(self):
        demand(self.take(4) == b"pgst", "no message")
        demand(self.number(2) == 1, "another version")
        kind = self.number(1)
        self.zero(1)
        body_bytes = self.u32()
        demand(body_bytes <= MAX_MESSAGE_BYTES - HEADER_BYTES, "too large")
        self.zero(4)
        demand(body_bytes == len(self.data) - HEADER_BYTES, "not one whole message")
        bodies = {1: self.offer, 2: self.receipt, 3: self.refusal}
        demand(kind in bodies, f"kind {kind}")
        message = {"kind": kind, **bodies[kind]()}
        demand(self.at == len(self.data), f"bytes after the end at byte {self.at}")
        return message

    # A dict is made in the order in which it is written, and so are its fields read.

    def offer(self):
        return {
            "transfer": self.transfer(),
            "owner": self.non_zero(8),
            "tokens": self.u64(),
            "held_tokens": self.u64(),
            "checksum": self.code(0, 3),
            "batch_pages": self.non_zero(),
            "slice": self.slice(),
            "model": self.model(),
            "writers": self.list(24, lambda: {"holder": self.u64(), "slice": self.slice()}),
            "destinations": self.list(16, self.page),
        }

    def receipt(self):
        return {
            "transfer": self.transfer(),
            "owner": self.non_zero(8),
            "tokens": self.u64(),
            "held_tokens": self.u64(),
            "writer": self.u64(),
            "pages": self.u32(),
            "last_page_tokens": self.u32(),
            "checksum": self.code(0, 3),
            "model": self.model(),
            "parts": self.list(40, self.part),
        }

    def refusal(self):
        return {"transfer": self.transfer(), "side": self.code(1, 2), "reason": self.text(0, 1024)}

    def transfer(self):
        transfer = {"sequence": self.non_zero(8), "pool": self.non_zero(), "nonce": self.number(3)}
        self.zero(1)
        return transfer

    def page(self):
        return {
            "index": self.u32(),
            "pool": self.non_zero(),
            "generation": self.number(5),
            "nonce": self.number(3),
        }

    def slice(self):
        return {"layers": self.range(1), "heads": self.range(1)}

    def part(self):
        return {
            "group": self.u32(),
            "slice": self.slice(),
            "pages": self.range(),
            "planes": self.range(),
            "digests": self.list(16, lambda: self.take(16).hex()),
        }

    def model(self):
        model = {
            "name": self.text(1, 256),
            "revision": self.text(1, 256),
            "page_tokens": self.u32(),
            "layers": self.non_zero(),
            "layer_planes": self.code(1, 2),
            "cache": self.code(1, 2),
        }
        demand(1 <= model["page_tokens"] <= 32767, "page_tokens")
        return {**model, **(self.heads() if model["cache"] == 1 else self.latent())}

    def heads(self):
        return {
            "kv_heads": self.non_zero(),
            "key_dim": self.non_zero(),
            "value_dim": self.non_zero(),
            "key_format": self.format(),
            "value_format": self.format(),
            "order": self.code(1, 2),
            "interleave": self.code(1, 2),
        }

    def latent(self):
        latent = {
            "latent_dim": self.non_zero(),
            "rope_dim": self.non_zero(),
            "latent_format": self.format(),
            "rope_dtype": self.code(1, 10),
            "packing": self.code(1, 2),
            "indexer_dim": self.u32(),
        }
        if latent["indexer_dim"] == 0:
            self.zero(12)
            return {**latent, "indexer_format": [0, 0, 0]}
        return {**latent, "indexer_format": self.format()}

    def format(self):
        dtype, block_elements = self.code(1, 10), self.u32()
        scale_dtype = self.code(1, 5) if block_elements else self.code(0, 0)
        return [dtype, block_elements, scale_dtype]


def read(path):
    data = bytes.fromhex(path.read_text()) if path.suffix == ".hex" else path.read_bytes()
    return Reader(data).message()


def refused(data):
    try:
        Reader(data).message()
    except Refused:
        return True
    return False


def check(folder):
    good, bad = sorted(folder.glob("good_*.bin")), sorted(folder.glob("bad_*.bin"))
    for path in good:
        expected = json.loads(path.with_suffix(".json").read_text())
        assert read(path) == expected, path.name
        data = path.read_bytes()
        assert all(refused(data[:end]) for end in range(0, len(data), 1 + len(data) // 200)), path.name
        assert refused(data + b"\0"), path.name
    for path in bad:
        assert refused(path.read_bytes()), path.name
    known = sorted(pathlib.Path(__file__).parent.glob("*.hex"))
    for path in known:
        assert read(path) == json.loads((folder / f"good_{path.stem}.json").read_text()), path.name
    assert good and bad and known, "nothing to compare"
    print(f"python: {len(good)} messages and {len(known)} known ones read field by field, {len(bad)} damaged ones refused")


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        if path.is_dir():
            check(path)
        else:
            print(json.dumps(read(path), ensure_ascii=False))


if __name__ == "__main__":
    main()
