"""Waits, or lets another function go on, as `how` says. The slot `result` has what came to what waits, the slot `said` what came of something else."""

import sys

from monohull import Continuation, Error, call_cc, instance, resume, sleep, slots

given = dict(argument[2:].split("=", 1) for argument in sys.argv[1:])
how, value = given["how"], given.get("value", "")


def tried(what):
    try:
        what()
    except Error as error:
        return f"{error.number}: {error}"
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def waits():
    try:
        slots.put("result", call_cc("next"))
    except Error as error:
        slots.put("result", f"{error.number}: {error}")


def resumes():
    continuation = Continuation.take("next")
    sleep(int(given.get("milliseconds", "0")) / 1000)
    slots.put("said", tried(lambda: continuation.resume(value)))


def resumes_twice():
    assert Continuation.take("never", wait=False) is None
    continuation = Continuation.take("next")
    slots.put("other", "text")
    refused = [tried(lambda: continuation.publish("other")), tried(lambda: Continuation.take("other"))]
    continuation.resume(value)
    again = [lambda: continuation.resume(), lambda: continuation.publish("y"), continuation.discard]
    forged = object.__new__(Continuation)
    forged._owned = 7
    refused += map(tried, [*again, Continuation, forged.resume, lambda: resume("other")])
    slots.put("said", "\n".join(refused))


def passes():
    Continuation.take("next").publish("further")


def discards():
    Continuation.take("next").discard()
    # It goes on only after what waited has an error.
    slots.put("said", slots.get("result"))


def drops():
    Continuation.take("next")


def fails_first():
    continuation = Continuation.take("next")
    if instance.attempt == 1:
        raise RuntimeError("not at the first attempt")
    continuation.resume(f"{value} at attempt {instance.attempt}")


{
    "wait": waits,
    "resume": resumes,
    "twice": resumes_twice,
    "pass": passes,
    "resume-further": lambda: resume("further", value),
    "discard": discards,
    "drop": drops,
    "fail-first": fails_first,
}[how]()
