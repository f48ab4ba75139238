"""numpy in the interpreter: each of its modules in C, slots as arrays, and threads."""

import concurrent.futures
import sys

import numpy as np
from monohull import slots


def check(name, value):
    if not value:
        print("wrong:", name)


numbers = np.arange(12.0).reshape(3, 4)
check("matrices", (numbers @ numbers.T)[2, 2] == 366 and numbers.sum(axis=0).tolist() == [12, 15, 18, 21])
check("types", [np.float32(1.5).nbytes, np.array(["a", "bc"]).dtype.str, str(np.datetime64("2026-01-01") + 1)] == [4, "<U2", "2026-01-02"])
check("sorting", np.sort([3, 1, 2]).tolist() == [1, 2, 3] and np.unique([2, 1, 2]).tolist() == [1, 2] and np.argmax([1, 9, 3]) == 1)
check("functions", np.allclose(np.sin(np.linspace(0, 1, 5)) ** 2 + np.cos(np.linspace(0, 1, 5)) ** 2, 1) and np.isnan(np.log(np.float64(-0.5) * 0 - 1)))
check("linalg", np.allclose(np.linalg.inv([[2.0, 1], [1, 3]]), [[0.6, -0.2], [-0.2, 0.4]]))
check("eigenvalues", np.allclose(np.sort(np.linalg.eigvalsh([[2.0, 1], [1, 2]])), [1, 3]) and np.allclose(np.linalg.svd(np.eye(3))[1], 1))
check("fft", np.allclose(np.fft.ifft(np.fft.fft([1, 2, 3, 4])), [1, 2, 3, 4]))
check("random", np.allclose(np.random.RandomState(0).rand(2), [0.5488135, 0.71518937]))
check("generators", len({np.random.Generator(kind(1)).integers(1 << 62) for kind in (np.random.PCG64, np.random.Philox, np.random.SFC64, np.random.MT19937)}) == 4)
check("strings", np.strings.upper(np.array(["ab", "c"])).tolist() == ["AB", "C"] and f"{np.array([1.5, 2])}" == "[1.5 2. ]")

# Errors of C++ and of Fortran's heirs are exceptions.
for error, action in (
    (np.linalg.LinAlgError, lambda: np.linalg.inv(np.zeros((2, 2)))),
    (ValueError, lambda: numbers.reshape(5, 5)),
    (MemoryError, lambda: np.ones(1 << 45)),
):
    try:
        action()
        check(error.__name__, False)
    except error:
        pass

# A slot is an array without a copy, in both directions.
given = np.frombuffer(slots.get("given", writable=True), dtype=np.uint8)
check("given", bytes(given) == b"some bytes" and given.base is not None)
room = slots.make(8 * 1000)
np.frombuffer(room, dtype=np.float64)[:] = np.arange(1000)
slots.put("squares", np.frombuffer(room, dtype=np.float64) ** 2)

with concurrent.futures.ThreadPoolExecutor(4) as pool:
    parts = pool.map(lambda seed: np.random.default_rng(seed).random(100_000).mean(), range(8))
    check("threads", abs(sum(parts) / 8 - 0.5) < 0.01)
check("modules", "ctypes" not in sys.modules and np.show_config(mode="dicts")["Python Information"]["version"] == "3.13")
print("all right")
