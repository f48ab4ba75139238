"""What comes before the program: the interpreter imports this module first.

With a program in the image it also finds the modules of that program. Its archive is what `pack.py` has made of the source:

    length of the index, 8 bytes | index, a marshalled dictionary | contents

    main      path of the file that is run
    modules   name -> (path, whether it is a package, where its bytecode begins, how long it is)
    files     path -> (where it begins, how long it is)
"""

import _frozen_importlib
import _monohull
import builtins
import marshal
import sys

import _sitebuiltins


class Finder:
    """Finds and loads the modules in an archive, and the files beside them."""

    def __init__(self):
        length = int.from_bytes(_monohull.archive(0, 8), "little")
        index = marshal.loads(_monohull.archive(8, length))
        self._contents = 8 + length
        self._main = index["main"]
        self._modules = index["modules"]
        self._files = index["files"]

    def __repr__(self):
        return "<the program's modules>"

    def _slice(self, at, length):
        return _monohull.archive(self._contents + at, length)

    # The finder.

    def find_spec(self, name, path=None, target=None):
        found = self._modules.get(name)
        if found is None:
            return None
        origin, is_package, _, length = found
        if not length:
            # A folder without `__init__.py`.
            spec = _frozen_importlib.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [origin]
            return spec
        spec = _frozen_importlib.ModuleSpec(name, self, origin=origin, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [origin.rpartition("/")[0]]
        return spec

    def find_distributions(self, context):
        from _monohull_metadata import distributions

        return distributions(self._files, self.get_data, context.name)

    def invalidate_caches(self):
        pass

    # The loader.

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        _frozen_importlib._call_with_frames_removed(exec, self.get_code(module.__spec__.name), module.__dict__)

    def get_code(self, name):
        found = self._modules.get(name)
        if found is None or not found[3]:
            raise ImportError(f"the program has no module {name!r}", name=name)
        return marshal.loads(self._slice(*found[2:]))

    def get_filename(self, name):
        if name == "__main__":
            return self._main
        found = self._modules.get(name)
        if found is None:
            raise ImportError(f"the program has no module {name!r}", name=name)
        return found[0]

    def get_source(self, name):
        data = self.get_data(self.get_filename(name))
        from importlib.util import decode_source

        return decode_source(data)

    def is_package(self, name):
        found = self._modules.get(name)
        return found is not None and found[1]

    def get_data(self, path):
        found = self._files.get(path)
        if found is None:
            raise FileNotFoundError(2, "the program has no such file", path)
        return bytes(self._slice(*found))

    def get_resource_reader(self, name):
        from _monohull_metadata import Reader

        return Reader(self._files, self.get_data, self.get_filename(name).rpartition("/")[0])

    # The start.

    def main(self):
        """Prepares the module `__main__`; its bytecode."""
        names = sys.modules["__main__"].__dict__
        names.update(__file__=self._main, __loader__=self, __cached__=None)
        if self._main.endswith("__main__.py"):
            names["__package__"] = ""
        return self.get_code("__main__")


# There is no file of the interpreter: libraries that would read it, or start it, are told so.
sys.executable = sys._base_executable = ""
# Each line is shown when it is complete, as of programs in other languages.
if sys.stdout is not None:
    sys.stdout.reconfigure(line_buffering=True)
builtins.exit = _sitebuiltins.Quitter("exit", "the end of the input")
builtins.quit = _sitebuiltins.Quitter("quit", "the end of the input")

if sys.platform == "wasi":
    import _monohull_guest

if _monohull.archive_length():
    _finder = Finder()
    # As a program's folder on `sys.path` does, it comes before the library, but for what the interpreter itself consists of.
    sys.meta_path.insert(1, _finder)
    main = _finder.main
