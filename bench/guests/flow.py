"""Word count, sort and chain in Python, as the functions in C beside it have them: `flow.py ROLE PARTS` with the same slots. What is slow in Python is left to
the functions of its library, as programs in Python do."""

import sys
import zlib
from collections import Counter
from heapq import merge as merged

from monohull import instance, slots


def cut(text, parts):
    """The places at which a text is cut into parts, behind a white space each."""
    text, places = bytes(text), [0]
    for part in range(1, parts):
        at = max(len(text) * part // parts, places[-1])
        while at < len(text) and not text[at : at + 1].isspace():
            at += 1
        places.append(at)
    return places + [len(text)]


def split(slot, parts):
    with slots.get(slot) as text:
        places = cut(text, parts)
        for part in range(parts):
            slots.put(f"part.{part}", text[places[part] : places[part + 1]])


def taken(name):
    with slots.get(name) as data:
        return bytes(data)


def records(counts):
    return b"\n".join(b"%d %s" % (count, word) for word, count in counts)


def read(data):
    for record in data.split(b"\n") if data else ():
        count, word = record.split(b" ", 1)
        yield word, int(count)


def map_words(parts):
    counts = Counter(taken(f"part.{instance.index}").split())
    shards = [[] for _ in range(parts)]
    for word, count in counts.items():
        shards[zlib.crc32(word) % parts].append((word, count))
    for shard, words in enumerate(shards):
        slots.put(f"count.{shard}.{instance.index}", records(words))


def reduce_words(parts):
    counts = Counter()
    for part in range(parts):
        for word, count in read(taken(f"count.{instance.index}.{part}")):
            counts[word] += count
    slots.put(f"sum.{instance.index}", records(counts.items()))


def merge_words(parts):
    counts = [pair for part in range(parts) for pair in read(taken(f"sum.{part}"))]
    counts.sort(key=lambda pair: (-pair[1], pair[0]))
    slots.put("counts", b"".join(b"%d %s\n" % (count, word) for word, count in counts))


def sort_lines(parts):
    numbers = sorted(map(int, taken(f"part.{instance.index}").split()))
    slots.put(f"sorted.{instance.index}", b"\n".join(b"%d" % number for number in numbers))


def join_lines(parts):
    runs = [map(int, taken(f"sorted.{part}").split()) for part in range(parts)]
    slots.put("sorted", b"".join(b"%d\n" % number for number in merged(*runs)))


def link(number, links, size):
    """Hands on a payload, whose first four bytes are the checksum of the others."""
    if number == 0:
        payload = bytearray(4) + bytes(range(256)) * (size // 256)
    else:
        payload = slots.get(f"payload.{number - 1}", writable=True)
        if zlib.crc32(payload[4:]) != int.from_bytes(payload[:4], "little"):
            sys.exit("another checksum")
    if number + 1 < links:
        payload[4 + number] ^= 0xA5
        payload[:4] = zlib.crc32(payload[4:]).to_bytes(4, "little")
        slots.put(f"payload.{number}", payload)
    else:
        slots.put("result", f"{number} hops, {len(payload)} bytes, {zlib.crc32(payload):08x}\n")


role, parts = sys.argv[1], int(sys.argv[2])
if role == "link":
    link(int(sys.argv[3]), parts, int(sys.argv[4]))
elif role == "split":
    split(sys.argv[3], parts)
else:
    {"map": map_words, "reduce": reduce_words, "merge": merge_words, "sort": sort_lines, "join": join_lines}[role](parts)
