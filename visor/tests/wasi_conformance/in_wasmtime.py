"""Runs a program in Wasmtime, again and again, as it is told in JSON on standard input: each time in a folder, whose directory `root` is the
program's `/`. What the program prints, and how it ends, are files of the folder. A run may name another program, as text or compiled."""

import json
import os
import sys

from wasmtime import Engine, ExitTrap, Linker, Module, Store, Trap, WasiConfig, WasmtimeError

asked = json.load(sys.stdin)
engine = Engine()
linker = Linker(engine)
linker.define_wasi()
modules = {}
for run in asked["runs"]:
    here = lambda name: os.path.join(run["folder"], name)
    wasi = WasiConfig()
    wasi.argv = run["argv"]
    wasi.env = run["env"]
    if run["stdin"] is not None:
        wasi.stdin_file = run["stdin"]
    wasi.stdout_file = here("stdout")
    wasi.stderr_file = here("stderr")
    wasi.preopen_dir(here("root"), "/")
    name = run.get("module", asked["module"])
    if name not in modules:
        modules[name] = Module.from_file(engine, name)
    store = Store(engine)
    store.set_wasi(wasi)
    end = asked["returned"]
    try:
        linker.instantiate(store, modules[name]).exports(store)["_start"](store)
    except ExitTrap as exit:
        end = f"status {exit.code}"
    except (Trap, WasmtimeError) as trap:
        end = str(trap)
    store.close()
    with open(here("end"), "w") as file:
        file.write(end)
