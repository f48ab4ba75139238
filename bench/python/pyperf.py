"""Stands in for `pyperf`, which starts a process for each measurement: the benchmarks of pyperformance import it, and are timed in this one.

Each benchmark is repeated until a measurement takes long enough for the clock, and its line says what one repetition takes.
"""

import argparse
import time

perf_counter = time.perf_counter
# How long a measurement takes, in seconds. `main.py` sets it.
enough = 0.05


def python_implementation():
    return "cpython"


class Runner:
    """What a benchmark asks for: its options, which are the defaults, and to be timed."""

    def __init__(self, add_cmdline_args=None):
        self.metadata = {}
        self.argparser = argparse.ArgumentParser()
        self.args = None

    def parse_args(self):
        self.args = self.argparser.parse_args(arguments)
        return self.args

    def bench_func(self, name, function, *arguments, inner_loops=1):
        def timed(loops):
            began = perf_counter()
            for _ in range(loops):
                function(*arguments)
            return perf_counter() - began

        self.bench_time_func(name, timed, inner_loops=inner_loops)

    def bench_time_func(self, name, timed, *arguments, inner_loops=1):
        loops = 1
        while (seconds := timed(loops, *arguments)) < enough:
            loops *= 2
        print(f"{name}: {seconds / loops / inner_loops * 1e9:.1f}")


# The command line of the benchmark that runs.
arguments = []
