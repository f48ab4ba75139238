"""Makes read-only data of Python's standard library, and of the modules in this folder that belong to it.

    build-python freeze.py LIBRARY OUT              LIBRARY is the folder `Lib` of CPython's source
    build-python freeze.py LIBRARY OUT PACKAGES     and packages of others, from the folder that holds them
    build-python freeze.py --wasi LIBRARY OUT       for an interpreter that is a WebAssembly program

In OUT are then `library.bin`, the bytecode of all modules, and `library.c`, the table by which the interpreter finds it. The file
`modules` in PACKAGES names modules in C that are linked, each by its name and its function. In a WebAssembly program all data would be copied at
each start, so the bytecode stays outside, and the table has notes of where it is (`wasi/host.c`).
"""

import marshal
import pathlib
import sys

# What needs a display, a compiler, another system, or a library that is not there; and the tests.
WITHOUT = {
    "__hello__", "__phello__", "_android_support", "_apple_support", "_ios_support", "_osx_support", "antigravity", "asyncio.windows_events",
    "asyncio.windows_utils", "ctypes", "curses", "dbm", "encodings.mbcs", "encodings.oem", "ensurepip", "idlelib", "multiprocessing.popen_spawn_win32",
    "nturl2path", "pydoc_data", "test", "this", "tkinter", "turtle", "turtledemo", "venv",
}
# The modules in this folder, and what they are called in the interpreter.
OURS = {
    "monohull": "monohull",
    "start": "_monohull_start",
    "metadata": "_monohull_metadata",
    "pack": "_monohull_pack",
}
NATIVE = {"configuration": "_sysconfigdata__linux_x86_64-linux-musl"}
WASI = {
    "wasi/guest": "_monohull_guest",
    "wasi/loop": "_monohull_loop",
    "wasi/sockets": "_socket",
    "wasi/configuration": "_sysconfigdata__wasi_wasm32-wasi",
}
# Modules in C of a WebAssembly program, each with its function.
WASI_LINKED = [("_monohull_sockets", "PyInit__monohull_sockets")]
PAGE = 4096
# Lines that become others, so that what programs import can be in a template. `random` draws its first seed when it is imported: instances of one
# template have that seed in common until `monohull.ready` gives each its own. `selectors` makes an epoll descriptor to see whether it can.
EDITS = {
    "random": ("_inst = Random()\n", "import _monohull\n_inst = Random(int.from_bytes(_monohull.common_random(32)))\ndel _monohull\n"),
    "selectors": ("    # check if the OS and Kernel actually support the method. Call may fail with\n", "    return True\n"),
}
# The loop of `asyncio` wants a pair of sockets, by which other threads wake it: there are none.
# Standard error looks like a terminal there, and is none.
WASI_EDITS = {
    "asyncio.unix_events": ("    _loop_factory = _UnixSelectorEventLoop\n", "    from _monohull_loop import Loop as _loop_factory\n"),
    "_colorize": ("COLORIZE = True\n", "COLORIZE = False\n"),
}


def source(name, path, edits):
    """The text of a module."""
    text = path.read_bytes()
    if name in edits:
        before, after = (line.encode() for line in edits[name])
        if text.count(before) != 1:
            sys.exit(f"{path} does not contain {before} exactly once")
        text = text.replace(before, after)
    return text


def library(folder):
    """Names, files, and whether each is a package."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        parts = parts[:-1] if is_package else parts
        name = ".".join(parts)
        if parts[0] in WITHOUT or name in WITHOUT or not all(part.isidentifier() for part in parts) or {"test", "tests"} & set(parts):
            continue
        yield name, path, is_package


# In C: where the bytecode is, as a part of the interpreter.
INSIDE = """\
__asm__(".section .rodata.library,\\"a\\",@progbits\\n.balign 64\\n.local monohull_bytecode\\nmonohull_bytecode:\\n"
        ".incbin \\"{file}\\"\\n.previous");
extern const unsigned char monohull_bytecode[] __attribute__((visibility("hidden")));
"""


def main(*arguments):
    is_wasi = arguments[0] == "--wasi"
    folder, out, packages = (*arguments[is_wasi:], None)[:3]
    here = pathlib.Path(__file__).parent
    modules = list(library(pathlib.Path(folder)))
    linked = WASI_LINKED if is_wasi else []
    if packages is not None:
        modules += library(pathlib.Path(packages))
        linked = [line.split() for line in (pathlib.Path(packages) / "modules").read_text().splitlines()]
    ours = OURS | (WASI if is_wasi else NATIVE)
    edits = EDITS | (WASI_EDITS if is_wasi else {})
    modules += [(name, here / f"{file}.py", False) for file, name in ours.items()]
    data, table = bytearray(), []
    for name, path, is_package in modules:
        code = marshal.dumps(compile(source(name, path, edits), f"<frozen {name}>", "exec", dont_inherit=True, optimize=0))
        note = "".join(f"\\x{byte:02x}" for byte in b"\1" + len(data).to_bytes(4, "little"))
        place = f'(const unsigned char *)"{note}"' if is_wasi else f"monohull_bytecode + {len(data)}"
        table.append(f'    {{"{name}", {place}, {len(code)}, {int(is_package)}}},')
        data += code
    out = pathlib.Path(out)
    (out / "library.bin").write_bytes(data)
    text = (
        "#include <Python.h>\n"
        + (f"const uint32_t monohull_library_end = {-(-len(data) // PAGE) * PAGE};\n" if is_wasi else INSIDE.format(file=out / "library.bin"))
        + "const struct _frozen monohull_library[] = {\n" + "\n".join(table) + "\n    {0, 0, 0, 0},\n};\n"
        + "".join(f"PyMODINIT_FUNC {function}(void);\n" for _, function in linked)
        + "struct _inittab monohull_modules[] = {\n"
        + "".join(f'    {{"{name}", {function}}},\n' for name, function in linked)
        + "    {0, 0},\n};\n"
    )
    (out / "library.c").write_text(text)


main(*sys.argv[1:])
