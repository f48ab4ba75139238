"""A program that was ready, and leaves at its end what an interpreter takes care of."""
import atexit
import json
import sys
import threading
import time

import monohull


class Named:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone:", self.name)


before = Named("before")
monohull.ready()
after = Named("after")
cycle = Named("cycle")
cycle.itself = cycle
del cycle
atexit.register(print, "at exit")


def work():
    threading.main_thread().join()
    print("the thread has ended")


def stay():
    while True:
        time.sleep(0.001)


threading.Thread(target=work).start()
threading.Thread(target=stay, daemon=True).start()
variable = open("/data/variable", "w")
variable.write("of a variable")
json.file = open("/data/module", "w")
json.file.write("of a module")
if len(sys.argv) > 1:
    sys.exit(int(sys.argv[1]))
