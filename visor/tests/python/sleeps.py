"""Waits with a file open, objects in its heap and a second thread, and goes on with all of them."""

import threading
import time

kept = {"ship": "Argo"}
file = open("/tmp/a.txt", "w+")
file.write("written before")
slept = threading.Event()


def sleeper():
    time.sleep(2)
    slept.set()


thread = threading.Thread(target=sleeper)
thread.start()
began = time.monotonic()
print("waits")
time.sleep(1.5)
file.seek(0)
print(file.read(), kept["ship"])
thread.join()
if slept.is_set() and time.monotonic() - began >= 2:
    print("the thread has slept")
print("all right")
