"""What `importlib.resources` and `importlib.metadata` ask of a program's archive. Imported when it is first asked."""

import io
import pathlib
from importlib.metadata import Distribution, Prepared
from importlib.resources.abc import Traversable, TraversableResources


class File(Traversable):
    """A file or a folder of the archive."""

    def __init__(self, files, get_data, path):
        self._files, self._get_data, self._path = files, get_data, path

    @property
    def name(self):
        return self._path.rpartition("/")[2]

    def __str__(self):
        return self._path

    def is_file(self):
        return self._path in self._files

    def is_dir(self):
        start = self._path + "/"
        return not self._path or any(path.startswith(start) for path in self._files)

    def iterdir(self):
        start = self._path + "/" if self._path else ""
        names = {path[len(start) :].partition("/")[0] for path in self._files if path.startswith(start)}
        return (self._at(start + name) for name in sorted(names))

    def joinpath(self, *names):
        path = "/".join([self._path, *map(str, names)]).strip("/")
        return self._at(str(pathlib.PurePosixPath(path)).removeprefix("."))

    __truediv__ = joinpath

    def _at(self, path):
        return File(self._files, self._get_data, path)

    def open(self, mode="r", *arguments, **named):
        stream = io.BytesIO(self.read_bytes())
        return stream if "b" in mode else io.TextIOWrapper(stream, *arguments, **named)

    def read_bytes(self):
        return self._get_data(self._path)


class Reader(TraversableResources):
    """The files of a package."""

    def __init__(self, files, get_data, path):
        self._root = File(files, get_data, path)

    def files(self):
        return self._root


class Installed(Distribution):
    """A wheel, by its folder `NAME-VERSION.dist-info`."""

    def __init__(self, folder):
        self._folder = folder

    def read_text(self, name):
        file = self._folder.joinpath(name)
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def locate_file(self, path):
        return File(self._folder._files, self._folder._get_data, str(path))


def distributions(files, get_data, name):
    """The wheels, or the one of this name."""
    wanted = Prepared(name)
    folders = {path.partition("/")[0] for path in files}
    for folder in sorted(folders):
        if folder.endswith(".dist-info"):
            found = folder.removesuffix(".dist-info").partition("-")[0]
            if not wanted or Prepared.normalize(found) == wanted.normalized:
                yield Installed(File(files, get_data, folder))
