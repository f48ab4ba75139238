"""Recursions without end, each by another way through the interpreter's C: exceptions, after which the program goes on."""

import ast
import copy
import json
import pickle
import sys

sys.setrecursionlimit(100_000)


def ends(name, recursion, *kinds):
    try:
        recursion()
    except kinds or RecursionError:
        pass
    else:
        raise AssertionError(f"{name} has ended by itself")


def python(depth):
    return python(depth + 1) + 1


def generator():
    yield from generator()


class Shown:
    def __repr__(self):
        return repr(Shown())


class Sorted:
    def __lt__(self, other):
        return sorted([Sorted(), Sorted()])


class Asked:
    def __getattr__(self, name):
        return getattr(self, name + "a")

    @property
    def property(self):
        return self.property


class Called:
    def __call__(self):
        return self()


class Freed:
    def __del__(self):
        pass


class Compared:
    def __eq__(self, other):
        return Compared() == Compared()


def nested(make, depth=100_000):
    value = make(None)
    for _ in range(depth):
        value = make(value)
    return value


lists = nested(lambda inner: [inner])
# A frame of Python's takes nothing of the stack of C, but some 100 bytes of memory.
ends("functions", lambda: python(0), RecursionError, MemoryError)
ends("generators", lambda: next(generator()))
ends("repr", lambda: repr(Shown()))
ends("sorted", lambda: sorted([Sorted(), Sorted()]))
ends("getattr", lambda: Asked().name)
ends("property", lambda: Asked().property)
ends("call", Called())
ends("==", lambda: Compared() == Compared())
ends("repr of lists", lambda: repr(lists))
ends("repr of dictionaries", lambda: repr(nested(lambda inner: {1: inner})))
ends("json.dumps", lambda: json.dumps(lists))
ends("json.loads", lambda: json.loads("[" * 100_000))
ends("copy", lambda: copy.deepcopy(lists))
ends("pickle", lambda: pickle.dumps(lists))
ends("isinstance", lambda: isinstance(1, nested(lambda inner: (inner,) if inner else int)))
for text in ["(" * 5000 + ")" * 5000, "not " * 20_000 + "x", "-" * 20_000 + "x", "+".join(["1"] * 20_000), "x" + ".a" * 20_000, "lambda: " * 5000 + "x"]:
    ends(text[:10], lambda: compile(text, "text", "eval"), RecursionError, MemoryError, SyntaxError)
ends("ast", lambda: ast.literal_eval("[" * 5000 + "]" * 5000), RecursionError, MemoryError, SyntaxError)
# What is freed frees what it holds.
del lists
for kind in Freed, Shown:

    def make(inner, kind=kind):
        value = kind()
        value.inner = inner
        return value

    nested(make)
print("all right")
