"""Imports everything that the image has of the standard library, and uses what programs use most."""

import _imp
import importlib
import os  # `genericpath` cannot be the first of the two, here as elsewhere.
import sys
import warnings

warnings.simplefilter("ignore")

# What cannot be imported, and the part that is not in a function.
MISSING = {
    "termios": {"pty", "tty"},
    "ctypes": {"multiprocessing.sharedctypes"},
    "_multiprocessing": {
        "multiprocessing.forkserver",
        "multiprocessing.popen_forkserver",
        "multiprocessing.resource_tracker",
        "multiprocessing.synchronize",
    },
    "_posixshmem": {"multiprocessing.shared_memory"},
}


def frozen():
    """The library's modules."""
    return [name for name in _imp._frozen_module_names() if not name.startswith("_monohull")]


failures = []
for name in frozen():
    # Of the interactive interpreter there is only what pages texts.
    if name.endswith("__main__") or "hello" in name or name.startswith("_pyrepl."):
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        failures.append((name, error.name))
    except ImportError as error:
        failures.append((name, str(error)))
    except Exception as error:
        failures.append((name, repr(error)))
for failure in failures:
    print(*failure, file=sys.stderr)


def check(name, value):
    if not value:
        print("wrong:", name)


import base64, collections, csv, datetime, decimal, fractions, functools, hashlib, heapq, hmac, io, itertools, json, math, operator, pickle
import random, re, secrets, statistics, string, struct, textwrap, time, unicodedata, uuid, zlib, zoneinfo, dataclasses, enum, typing
import argparse, asyncio, concurrent.futures, configparser, contextlib, copy, email.message, gzip, html, inspect, ipaddress, locale, logging
import bz2, lzma, ssl, tarfile
import tomllib, urllib.parse, xml.etree.ElementTree as tree, zipfile, array, bisect, binascii, cmath, graphlib

check("json", json.loads('{"a": [1, 2.5, null, "\\u00fc"]}') == {"a": [1, 2.5, None, "ü"]} and json.dumps({"b": True}) == '{"b": true}')
check("json in C", json.scanner.c_make_scanner is not None)
check("re", re.findall(r"(?P<n>\w+)=(\d+)", "a=1 b=22") == [("a", "1"), ("b", "22")])
check("math", math.isclose(math.sin(math.pi / 6), 0.5) and math.comb(50, 25) == 126410606437752 and cmath.sqrt(-1) == 1j)
check("struct", struct.unpack("<Ihb", struct.pack("<Ihb", 7, -2, 3)) == (7, -2, 3))
check("sha256", hashlib.sha256(b"abc").hexdigest().startswith("ba7816bf8f01cfea"))
check("hashes", {"md5", "sha1", "sha512", "sha3_256", "blake2b"} <= hashlib.algorithms_available)
check("sha3", hashlib.sha3_256(b"").hexdigest().startswith("a7ffc6f8bf1ed766"))
check("blake2", hashlib.blake2b(b"abc", digest_size=4).hexdigest() == "63906248")
check("hmac", hmac.new(b"key", b"text", "sha256").digest() == hmac.digest(b"key", b"text", "sha256"))
check("zlib", zlib.decompress(zlib.compress(b"x" * 100_000, 9)) == b"x" * 100_000 and gzip.decompress(gzip.compress(b"gz")) == b"gz")
check("bz2", bz2.decompress(bz2.compress(b"x" * 100_000)) == b"x" * 100_000)
packed = lzma.compress(b"x" * 100_000, preset=6)
check("lzma", lzma.decompress(packed) == b"x" * 100_000 and lzma.LZMADecompressor().decompress(packed)[:1] == b"x")
for mode in ("gz", "bz2", "xz"):
    with tarfile.open(fileobj=(archive := io.BytesIO()), mode=f"w:{mode}") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    archive.seek(0)
    check(f"tar.{mode}", tarfile.open(fileobj=archive).getnames() == ["empty"])
check("openssl", ssl.OPENSSL_VERSION.startswith("OpenSSL 3.5.") and ssl.HAS_TLSv1_3 and ssl.HAS_SNI and ssl.HAS_ALPN)
check("scrypt", hashlib.scrypt(b"password", salt=b"NaCl", n=1024, r=8, p=16, dklen=64).hex().startswith("fdbabe1c9d347200"))
check("pbkdf2", hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1, 32).hex().startswith("120fb6cffcf8b32c"))
for name, start in (("sha512_256", "53048e2681941ef9"), ("ripemd160", "8eb208f7e05d987a"), ("sha3_512", "b751850b1a57168a")):
    check(name, hashlib.new(name, b"abc").hexdigest().startswith(start))
check("decimal", decimal.Decimal("0.1") + decimal.Decimal("0.2") == decimal.Decimal("0.3") and decimal.__libmpdec_version__)
check("fractions", fractions.Fraction(1, 3) + fractions.Fraction(1, 6) == fractions.Fraction(1, 2))
check("datetime", datetime.date(2024, 2, 29) + datetime.timedelta(days=366) == datetime.date(2025, 3, 1))
check("strftime", datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc).strftime("%Y-%j %H:%M %z") == "2026-002 03:04 +0000")
check("time", time.time() > 1.7e9 and time.monotonic() <= time.monotonic() and time.gmtime(0).tm_year == 1970)
os.environ["TZ"] = "EST+05EDT,M4.1.0,M10.5.0"
time.tzset()
check("tzset", time.timezone == 18000 and time.tzname == ("EST", "EDT") and time.localtime(1720000000).tm_isdst == 1)
del os.environ["TZ"]
time.tzset()
check("hashes", sys.hash_info.algorithm == "siphash13")
check("random", random.Random(1).random() == 0.13436424411240122 and len(set(secrets.token_bytes(64))) > 20)
check("unicode", unicodedata.name("ü") == "LATIN SMALL LETTER U WITH DIAERESIS" and unicodedata.normalize("NFD", "ü") == "u\u0308")
check("csv", list(csv.reader(io.StringIO('a,"b, c"\r\n'))) == [["a", "b, c"]])
check("itertools", list(itertools.pairwise("abc")) == [("a", "b"), ("b", "c")] and collections.Counter("aab")["a"] == 2)
check("statistics", statistics.median([3, 1, 2]) == 2 and heapq.nsmallest(2, [3, 1, 2]) == [1, 2])
check("pickle", pickle.loads(pickle.dumps({"a": (1, {2})})) == {"a": (1, {2})})
check("xml", tree.fromstring("<a><b c='1'>text</b></a>").find("b").get("c") == "1")
check("toml", tomllib.loads("a = [1, 2]\n[b]\nc = 'd'") == {"a": [1, 2], "b": {"c": "d"}})
check("url", urllib.parse.parse_qs("a=1&b=%C3%BC") == {"a": ["1"], "b": ["ü"]} and base64.b64encode(b"ab") == b"YWI=")
check("text", textwrap.dedent("  a\n  b") == "a\nb" and html.escape("<") == "&lt;" and "ß".upper() == "SS" and "İ".lower())
check("codecs", "ü".encode("latin-1") == b"\xfc" and "日本".encode("shift_jis").decode("shift_jis") == "日本" and "ü".encode("idna"))
check("format", f"{1234567.891:,.2f} {255:#x} {'x':>3}" == "1,234,567.89 0xff   x" and repr(0.1 + 0.2) == "0.30000000000000004")
check("numbers", 2**1000 % 1_000_007 == pow(2, 1000, 1_000_007) and int("9" * 50) == 10**50 - 1 and float("1e-320") > 0)
check("uuid", uuid.uuid4() != uuid.uuid4() and uuid.uuid5(uuid.NAMESPACE_DNS, "a").version == 5)
check("ipaddress", ipaddress.ip_address("10.0.0.1") in ipaddress.ip_network("10.0.0.0/8"))


@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0


check("dataclasses", Point(1) < Point(1, 2) and repr(Point(1)) == "Point(x=1, y=0)")
check("inspect", str(inspect.signature(check)) == "(name, value)")
check("compile", eval(compile("[n * n for n in range(4)]", "text", "eval")) == [0, 1, 4, 9])


async def gather():
    async def one(n):
        await asyncio.sleep(0.01 * (3 - n))
        return n

    async with asyncio.timeout(30):
        return await asyncio.gather(*map(one, range(3)))


check("asyncio", asyncio.run(gather()) == [0, 1, 2])
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    check("futures", list(pool.map(lambda n: n * 2, range(10))) == list(range(0, 20, 2)))

unexpected = [(name, why) for name, why in failures if name not in MISSING.get(why, ())]
print("all right" if not unexpected else unexpected)
