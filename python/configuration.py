"""What `sysconfig` says of the build: there is none to be continued, so it is little."""

build_time_vars = {
    "EXT_SUFFIX": ".cpython-313-x86_64-linux-musl.so",
    "Py_DEBUG": 0,
    "Py_GIL_DISABLED": 0,
    "SOABI": "cpython-313-x86_64-linux-musl",
    "TZPATH": "/usr/share/zoneinfo:/usr/lib/zoneinfo:/usr/share/lib/zoneinfo:/etc/zoneinfo",
}
