"""The workflows of `bench durable` for DBOS, with a small HTTP server before them.

Started as `python dbos_peer.py PORT DATABASE-URL`, by the environment into which `cargo xtask bench` has installed DBOS:

    POST /start/ID ORDER    the workflow is recorded         POST /send/ID VALUE     an event
    GET  /result/ID         waits for its result             GET  /published/ID      what it has published
    POST /call/ID ORDER     both                             POST /fork/ID {"count", "step"}
"""

import functools
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
from dbos import DBOS, SetWorkflowID

# When sleeps have begun, and how often a workflow was begun: not recorded, so they are not in what is measured.
BEGUN = {}
VISITS = {}


@DBOS.step()
def one():
    return 1


@DBOS.step()
def another():
    return 1


def visit(name):
    VISITS[name] = VISITS.get(name, 0) + 1
    return VISITS[name]


def deep(depth):
    if depth == 0:
        DBOS.sleep(0.01)
        return 0
    return 1 + deep(depth - 1)


def compare(left, right):
    DBOS.sleep(0.001)
    return left - right


@DBOS.workflow()
def bench(order):
    what = order["what"]
    if what == "steps":
        return sum(one() for _ in range(order["count"]))
    if what == "late":
        seconds = order["milliseconds"] / 1e3
        begun = BEGUN.setdefault(DBOS.workflow_id, time.time())
        DBOS.sleep(seconds)
        return (time.time() - begun - seconds) * 1e9
    if what == "event":
        sum(one() for _ in range(order.get("count", 0)))
        DBOS.set_event("published", "17")
        return int(DBOS.recv("go", timeout_seconds=86400))
    if what == "whim":
        # Takes another way when it is run again, as a program does that asks for a random number or the time.
        return one() if visit(order["name"]) == 1 else another()
    if what == "depth":
        return deep(1000)
    if what == "sort":
        return sorted(range(8, 0, -1), key=functools.cmp_to_key(compare)) == list(range(1, 9))
    return 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        _, what, name = self.path.split("/")
        if what == "result":
            return self.answer(DBOS.retrieve_workflow(name).get_result(polling_interval_sec=0.001))
        if what == "published":
            return self.answer(DBOS.get_event(name, "published"))
        return self.answer("ready")

    def do_POST(self):
        _, what, name = self.path.split("/")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "null")
        if what == "send":
            DBOS.send(name, body, "go")
            return self.answer("sent")
        if what == "fork":
            try:
                forks = [DBOS.fork_workflow(name, body["step"]) for _ in range(body["count"])]
                return self.answer([fork.get_result() for fork in forks] if body.get("wait") else len(forks))
            except Exception as error:
                return self.answer(type(error).__name__)
        with SetWorkflowID(name):
            handle = DBOS.start_workflow(bench, body)
        return self.answer(handle.get_result() if what == "call" else "started")


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def until_there(database):
    """Both are started at the same time."""
    while True:
        try:
            return psycopg.connect(database.rsplit("/", 1)[0] + "/postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.01)


if __name__ == "__main__":
    sys.setrecursionlimit(5000)
    until_there(sys.argv[2])
    DBOS(config={"name": "bench", "system_database_url": sys.argv[2], "log_level": "ERROR", "application_version": "1"})
    DBOS.launch()
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
