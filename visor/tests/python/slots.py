"""What slots do: views of memory that move, and copies."""

import gc

import monohull
from monohull import instance, slots


def check(name, value):
    if not value:
        print("wrong:", name)


def refused(kind, action):
    try:
        action()
    except kind as error:
        return error
    return None


check("instance", (instance.index, instance.count, instance.attempt) == (0, 1, 1))
given = slots.get("given")
check("a view", isinstance(given, memoryview) and bytes(given) == b"some bytes" and given.readonly)
check("read-only", refused(TypeError, lambda: given.__setitem__(0, 65)))
part = given[5:]
slots.put("copied", part)
check("released", refused(ValueError, lambda: part[0]) and bytes(given[:4]) == b"some")
other = slots.get("other", writable=True)
other[:4] = b"SOME"
slots.put("moved", other)
check("moved", refused(ValueError, lambda: other[0]))
slots.put("text", "Wörter")
slots.put("empty", b"")
check("taken", slots.get("given", wait=False) is None)
error = refused(monohull.Error, lambda: slots.put("", b"x"))
check("a name", error and error.number and str(error))
check("not a buffer", refused(TypeError, lambda: slots.put("none", 3)))
check("not contiguous", refused((BufferError, ValueError), lambda: slots.put("none", memoryview(b"abcdef")[::2])))

# A buffer stays as long as any view of it.
room = slots.make(1 << 16)
half = memoryview(room)[100:]
half[:3] = b"abc"
del room
gc.collect()
check("kept", bytes(half[:4]) == b"abc\0")
del half
for _ in range(2000):
    slots.make(1 << 20)
check("freed", refused(ValueError, lambda: slots.make(-1)) and refused(MemoryError, lambda: slots.make(1 << 50)))
monohull.sleep(0.001)
print("all right")
