// Calls of `wasi/lib/assemblyscript/monohull.ts`, for tests: each line says what has become of one.
import {
  Callback, ChildEnding, Ending, FOREVER, checkpoint, event, firstOf, fork, generation, handedOver, instanceCount, instanceIndex, invocationId, join, perform,
  publish, publishText, sleep, start, state, step, stepKey, take, takeText, tryTake,
} from "./monohull";

const DAY: f64 = 86400;

class Wait {
  callback: Callback = new Callback();
  constructor(public timeout: f64, public heartbeat: f64) {}
}

function named(ending: Ending): string {
  switch (ending) {
    case Ending.Completed: return "completed";
    case Ending.Rejected: return "rejected";
    case Ending.TimedOut: return "timed out";
    default: return "silent";
  }
}

/** An answer after a heartbeat, a rejection, one that does not come, a client that is silent. */
function answers(): void {
  const waits = [new Wait(FOREVER, DAY), new Wait(DAY, DAY), new Wait(0, FOREVER), new Wait(DAY, 0)];
  state("tokens", waits[0].callback.token + " " + waits[1].callback.token);
  for (let i = 0; i < waits.length; i++) {
    const answer = waits[i].callback.answer(waits[i].timeout, waits[i].heartbeat);
    console.log(named(answer.ending) + " " + answer.text);
  }
  console.log("of " + invocationId());
}

/** Slots, effects and children. */
function calls(): void {
  console.log("empty: " + (tryTake("small") == null).toString());
  publishText("small", "grün");
  console.log(takeText("small"));
  publish("bytes", new ArrayBuffer(100000));
  console.log(take("bytes").byteLength.toString());
  console.log(step() + " " + instanceIndex().toString() + " of " + instanceCount().toString());
  console.log([stepKey("pay"), stepKey("pay"), stepKey("send")].join(" "));
  const request = String.UTF8.encode("logo");
  const reply = perform("blob", request), failed = perform("blob", new ArrayBuffer(0));
  console.log(reply.hasFailed.toString() + " " + reply.text + " " + failed.hasFailed.toString());
  start("child", "good", String.UTF8.encode("17"));
  start("child", "bad", new ArrayBuffer(0));
  const good = join("good")!, bad = join("bad")!;
  console.log((good.ending == ChildEnding.Completed).toString() + " " + String.UTF8.decode(good.output("out")!) + " " + (good.output("other") == null).toString());
  console.log((bad.ending == ChildEnding.Failed).toString() + " " + (bad.message.length > 0).toString() + " " + (bad.output("") == null).toString());
}

/** Events, what is handed over, a save point and a copy. */
function waits(): void {
  sleep(NaN);
  const begun = Date.now();
  sleep(0.05);
  if (Date.now() - begun < 50) console.log("awake too early");
  console.log(checkpoint("here").toString() + " " + (handedOver("count") == null).toString() + " " + generation().toString());
  const first = firstOf(["shipped", "cancelled"], DAY);
  console.log(first ? first.name + " " + first.text : "late");
  console.log((event("paid", 0) == null).toString());
  console.log("copy " + fork(1).toString());
}

function handle(): void {
  const name = takeText("request");
  if (name.length == 0) process.exit(3);
  publishText("reply", "<" + name);
}

function child(): void {
  const name = takeText("in");
  if (name.length == 0) process.exit(3);
  publishText("out", name + "!");
}

const act = process.argv[1];
if (act == "--act=answers") answers();
if (act == "--act=calls") calls();
if (act == "--act=waits") waits();
if (act == "--act=names") firstOf(["shipped\nlate", "cancelled"], 0);
if (act == "--act=forever") sleep(FOREVER);
if (act == "--act=handle") handle();
if (act == "--act=child") child();
