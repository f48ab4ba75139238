"""Asks for an effect; or, with a request as the standard input, handles it. Of what is asked in capitals nothing is known."""

import sys

import monohull

request = sys.stdin.read()
if request:
    if request.isupper():
        sys.exit(f"nothing is known of {request}")
    monohull.slots.put("reply", request.upper())
    sys.exit()

print(bytes(monohull.perform("shout", "what")), bytes(monohull.perform("shout", b"\xc3\xa4")).decode())
for effect, request in ("shout", "WHAT"), ("nobody", "what"):
    try:
        monohull.perform(effect, request)
    except monohull.Error as error:
        print(str(error).splitlines()[0])
