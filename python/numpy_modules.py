"""Prepares numpy for the interpreter's image, from its source and what was compiled of it.

    numpy_modules.py SOURCE BUILD PACKAGES      BUILD is Meson's folder, in which objects and archives have been made

In PACKAGES are then numpy's Python files, an object for each of its modules in C (`objects`), and the file `modules`, which names them.
"""

import pathlib
import re
import shutil
import subprocess
import sys

# Tests, what needs a compiler, and what belongs to the build.
WITHOUT = {"tests", "doc", "distutils", "_build_utils", "code_generators", "_examples", "_pyinstaller", "lapack_lite", "src", "include"}
FILES_WITHOUT = {"_distutils.py", "conftest.py", "cversions.py", "mypy_plugin.py"}
LINKED = re.compile(r"^build (numpy/\S+?)\.cpython\S+\.so: \S+_LINKER (.*)\n((?: .*\n)*)", re.MULTILINE)


def modules(build):
    """The modules in C that are not tests: name, objects, archives."""
    for found in LINKED.finditer((build / "build.ninja").read_text()):
        path, inputs, settings = found.groups()
        if "tests" not in path and not path.endswith("_simd"):
            archives = sorted(set(re.findall(r"\S+\.a\b", settings)))
            yield path, inputs.split(" | ")[0].split(), archives


def targets(build):
    """What has to be compiled."""
    wanted = set()
    for _, objects, archives in modules(build):
        wanted.update(objects, archives)
    return sorted(wanted)


def main(source, build, packages):
    source, build, packages = (pathlib.Path(folder).resolve() for folder in (source, build, packages))
    (packages / "objects").mkdir(parents=True)
    for file in source.joinpath("numpy").rglob("*.py"):
        path = file.relative_to(source)
        if not WITHOUT & set(path.parts) and path.name not in FILES_WITHOUT:
            (packages / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, packages / path)
    shutil.copy(build / "numpy/__config__.py", packages / "numpy")
    # Some of it asks where it lies, and a module of the image does not say.
    with open(packages / "numpy/__init__.py", "a") as file:
        file.write('\n__file__ = "/numpy/__init__.py"\n')
    shutil.copy(source / "LICENSE.txt", packages / "LICENSE")
    lines = []
    for path, objects, archives in modules(build):
        name, function = path.replace("/", "."), "PyInit_" + path.rpartition("/")[2]
        out = packages / "objects" / f"{name}.o"
        # One object that hides all but its start: several modules have functions of the same name.
        command = ["ld", "-r", "--force-group-allocation", "-o", out, *objects, "--start-group", *archives, "--end-group"]
        subprocess.run(command, check=True, cwd=build)
        subprocess.run(["objcopy", f"--keep-global-symbol={function}", out], check=True)
        lines.append(f"{name} {function}\n")
    (packages / "modules").write_text("".join(lines))


if sys.argv[1] == "--targets":
    print("\n".join(targets(pathlib.Path(sys.argv[2]))))
else:
    main(*sys.argv[1:])
