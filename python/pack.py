"""Makes the archive of a program (`start.py` describes it): run by `monohull build`, in the interpreter that the archive is for.

    -m _monohull_pack MAIN      MAIN is the path of the file to run

The slot `sources` holds the files, each as the length of its path in 4 bytes, the length of its contents in 8, path, contents. The archive
is put into the slot `archive`.
"""

import io
import marshal
import sys
import warnings

from monohull import slots

# What only another libc could load.
LIBRARIES = (".so", ".pyd", ".dll", ".dylib")


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(1)


def read(sources):
    """The files, by their paths."""
    at, files = 0, {}
    while at < len(sources):
        path_length = int.from_bytes(sources[at : at + 4], "little")
        length = int.from_bytes(sources[at + 4 : at + 12], "little")
        at += 12
        path = str(sources[at : at + path_length], "utf-8")
        at += path_length
        files[path] = bytes(sources[at : at + length])
        at += length
    return files


def unpack(wheel, data):
    """The files of a wheel, where an installer would put them."""
    import zipfile

    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        names = [name for name in archive.namelist() if not name.endswith("/")]
        native = next((name for name in names if name.endswith(LIBRARIES)), None)
        if native is not None:
            fail(f"{wheel} is not pure Python: it holds {native}, and a function loads no libraries")
        for name in names:
            first, _, rest = name.partition("/")
            if first.endswith(".data"):
                kind, _, rest = rest.partition("/")
                if kind not in ("purelib", "platlib"):
                    continue
                yield rest, archive.read(name)
            else:
                yield name, archive.read(name)
    except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
        fail(f"{wheel} is no wheel that can be read: {error}")


def module_of(path):
    """The name of the module in a file, and whether it is a package; None if no `import` could name it."""
    parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    parts = parts[:-1] if is_package else parts
    if not path.endswith(".py") or not parts or not all(part.isidentifier() for part in parts):
        return None
    return ".".join(parts), is_package


def compiled(path, data, must):
    """The bytecode of a file. One of a wheel that is for another version of Python fails when it is imported, as usual."""
    with warnings.catch_warnings():
        if not must:
            warnings.simplefilter("ignore")
        try:
            return marshal.dumps(compile(data, path, "exec", dont_inherit=True))
        except (SyntaxError, ValueError, RecursionError) as error:
            if must:
                import traceback

                fail("".join(traceback.format_exception_only(error)).rstrip())
            text = f"{path}: {error}"
            return marshal.dumps(compile(f"raise SyntaxError({text!r})", path, "exec", dont_inherit=True))


def pack(main, own):
    """The archive of these files."""
    files = {}
    for path, data in own.items():
        if path.endswith(".whl"):
            files.update(unpack(path, data))
    for path, data in own.items():
        if path.endswith(LIBRARIES):
            fail(f"{path} is a library, and a function loads none")
        if not path.endswith(".whl"):
            files[path] = data
    contents, modules, places = bytearray(), {}, {}

    def add(data):
        place = (len(contents), len(data))
        contents.extend(data)
        return place

    for path in sorted(files):
        module = module_of(path)
        if module is not None:
            name, is_package = module
            # A package comes before a module of its name, as in a folder.
            if is_package or not modules.get(name, (0, False))[1]:
                modules[name] = (path, is_package, *add(compiled(path, files[path], path in own)))
        places[path] = add(files[path])
    for name in list(modules):
        # Folders without `__init__.py` are packages as well.
        while (name := name.rpartition(".")[0]) and name not in modules:
            modules[name] = (name.replace(".", "/"), True, 0, 0)
    modules["__main__"] = modules[module_of(main)[0]]
    index = marshal.dumps({"main": main, "modules": modules, "files": places})
    return b"".join([len(index).to_bytes(8, "little"), index, contents])


def begin():
    slots.put("archive", pack(sys.argv[1], read(slots.get("sources"))))


if __name__ == "__main__":
    begin()
