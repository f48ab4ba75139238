"""What Python has not where it is a WebAssembly program: each is an error that says so. `start.py` imports it there."""

import _thread
import sys

WITHOUT = "Python that is built for WebAssembly has no"

# Modules in C, with what they are for. Most modules of the library that would use one do without it.
MODULES = {
    "_ctypes": "libraries",
    "_curses": "terminal",
    "_dbm": "dbm",
    "_gdbm": "dbm",
    "_lzma": "lzma",
    "_multiprocessing": "processes",
    "_posixshmem": "processes",
    "_posixsubprocess": "processes",
    "_sqlite3": "sqlite3",
    "_ssl": "ssl",
    "_tkinter": "display",
    "ctypes": "libraries",
    "curses": "terminal",
    "dbm": "dbm",
    "fcntl": "locks of files",
    "mmap": "mapped files",
    "readline": "terminal",
    "resource": "limits of processes",
    "termios": "terminal",
    "tkinter": "display",
}


class Missing:
    """The last finder: names what is not there."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        what = MODULES.get(name)
        if what is not None:
            raise ModuleNotFoundError(f"No module named {name!r}: {WITHOUT} {what}", name=name)


def no_thread(*arguments, **named):
    raise RuntimeError(f"can't start new thread: {WITHOUT} threads")


sys.meta_path.append(Missing)
_thread.start_new_thread = _thread.start_new = _thread.start_joinable_thread = no_thread
