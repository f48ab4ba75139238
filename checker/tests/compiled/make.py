"""Makes the objects here from the texts: `pip install wasmtime==50.0.1`, then `python3 make.py` in this folder."""

import wasmtime

engine = wasmtime.Engine()
for name in ("sum", "constant"):
    with open(name + ".wat") as text, open(name + ".cwasm", "wb") as made:
        made.write(wasmtime.Module(engine, wasmtime.wat2wasm(text.read())).serialize())
