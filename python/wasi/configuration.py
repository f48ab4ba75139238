"""What `sysconfig` says of the build of a WebAssembly program: there is none to be continued, so it is little."""

build_time_vars = {
    "EXT_SUFFIX": ".cpython-313-wasm32-wasi.so",
    "Py_DEBUG": 0,
    "Py_GIL_DISABLED": 0,
    "SOABI": "cpython-313-wasm32-wasi",
    "TZPATH": "/usr/share/zoneinfo:/usr/lib/zoneinfo:/usr/share/lib/zoneinfo:/etc/zoneinfo",
}
