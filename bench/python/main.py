"""Runs benchmarks of pyperformance, each in this process: a line for each, its name and nanoseconds.

    main.py SECONDS NAME…      SECONDS is how long a measurement takes at least
"""

import runpy
import sys

import pyperf

pyperf.enough = float(sys.argv[1])
for name in sys.argv[2:]:
    # One file has several benchmarks: `pickle:unpickle` is the one of them.
    module, *pyperf.arguments = name.split(":")
    runpy.run_module(f"bm_{module}", run_name="__main__")
