// What a WebAssembly program in AssemblyScript asks of Monohull beside WASI: slots, its instance, durable calls, callbacks, children and effects.
//
// The file lies beside the program: `import { Callback, event, publishText } from "./monohull"`. Files, arguments, clocks and random numbers are those of
// `@assemblyscript/wasi-shim`. Times are seconds. A call that waits, waits with the whole instance.
//
// AssemblyScript catches no exceptions. What cannot be, such as an event with an empty name, ends the program with the system's explanation; what can,
// such as a timeout, is `null`.

// -- Imports ----------------------------------------------------------------------------------------------------------------

// @ts-ignore: decorator
@external("monohull", "slot_take")
declare function importedTake(name: usize, length: u32, wait: u32, taken: usize): u32;
// @ts-ignore: decorator
@external("monohull", "slot_move")
declare function importedMove(handle: u32, to: usize, length: u32): u32;
// @ts-ignore: decorator
@external("monohull", "slot_publish")
declare function importedPublish(name: usize, length: u32, bytes: usize, count: u32, isText: u32): u32;
// @ts-ignore: decorator
@external("monohull", "instance_index")
declare function importedIndex(): u32;
// @ts-ignore: decorator
@external("monohull", "instance_count")
declare function importedCount(): u32;
// @ts-ignore: decorator
@external("monohull", "attempt")
declare function importedAttempt(): u32;
// @ts-ignore: decorator
@external("monohull", "ready")
declare function importedReady(): u32;
// @ts-ignore: decorator
@external("monohull", "number")
declare function importedNumber(which: u32): i64;
// @ts-ignore: decorator
@external("monohull", "text")
declare function importedText(which: u32, to: usize, room: u32): i32;
// @ts-ignore: decorator
@external("monohull", "last_error")
declare function importedError(to: usize, room: u32): i32;
// @ts-ignore: decorator
@external("monohull", "fail")
declare function importedFail(isPermanent: u32, text: usize, length: u32): void;
// @ts-ignore: decorator
@external("monohull", "event")
declare function importedEvent(names: usize, length: u32, timeout: u64, taken: usize): i32;
// @ts-ignore: decorator
@external("monohull", "send")
declare function importedSend(to: usize, toLength: u32, name: usize, nameLength: u32, bytes: usize, length: u32): i32;
// @ts-ignore: decorator
@external("monohull", "state")
declare function importedState(name: usize, nameLength: u32, text: usize, length: u32): i32;
// @ts-ignore: decorator
@external("monohull", "handed_over")
declare function importedHandedOver(name: usize, length: u32, taken: usize): i32;
// @ts-ignore: decorator
@external("monohull", "checkpoint")
declare function importedCheckpoint(label: usize, length: u32): i32;
// @ts-ignore: decorator
@external("monohull", "fork")
declare function importedFork(copies: u32, ids: usize): i32;
// @ts-ignore: decorator
@external("monohull", "perform")
declare function importedPerform(effect: usize, effectLength: u32, request: usize, length: u32, reply: usize): i32;
// @ts-ignore: decorator
@external("monohull", "start_child")
declare function importedStart(workflow: usize, workflowLength: u32, id: usize, idLength: u32, input: usize, length: u32, detached: u32): i32;
// @ts-ignore: decorator
@external("monohull", "join")
declare function importedJoin(id: usize, length: u32, timeout: u64, end: usize): i32;
// @ts-ignore: decorator
@external("monohull", "child_output")
declare function importedOutput(end: usize, endLength: u32, slot: usize, length: u32, part: usize): i32;
// @ts-ignore: decorator
@external("monohull", "cancel_child")
declare function importedCancel(id: usize, length: u32): i32;
// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "random_get")
declare function importedRandom(to: usize, length: u32): u32;
// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "clock_time_get")
declare function importedClock(clock: u32, precision: u64, out: usize): u32;

// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "poll_oneoff")
declare function importedPoll(subscriptions: usize, events: usize, count: u32, out: usize): u32;

const NOT_FOUND: i32 = -2;
const TIMED_OUT: i32 = -110;
/** The slot is empty: `EAGAIN` of WASI. */
const EMPTY: u32 = 6;
const MONOTONIC: u32 = 1;
/** The texts of an instance, by the numbers of `GET_STRING`. */
const STEP: u32 = 3;
const INVOCATION: u32 = 6;
/** The same of `GET_INFO`. */
const GENERATION: u32 = 13;

/** A time without an end. */
export const FOREVER: f64 = Infinity;

// -- What the calls have in common ------------------------------------------------------------------------------------------

/** A handle and a length, or an offset and a length, as the runtime writes them. */
const pair = new StaticArray<u32>(2);

function at(bytes: ArrayBuffer): usize {
  return changetype<usize>(bytes);
}

function size(bytes: ArrayBuffer): u32 {
  return <u32>bytes.byteLength;
}

function encoded(text: string): ArrayBuffer {
  return String.UTF8.encode(text);
}

/** What is no number is no time. */
function nanoseconds(seconds: f64): u64 {
  if (seconds >= 1.8e10) return u64.MAX_VALUE;
  return seconds > 0 ? <u64>(seconds * 1e9) : 0;
}

function now(): u64 {
  const time = new StaticArray<u64>(1);
  importedClock(MONOTONIC, 1, changetype<usize>(time));
  return time[0];
}

/** Ends the program if this is an error, with the reason that the runtime has. */
function must(answer: i32): i32 {
  if (answer < 0) throw new Error(explained("error " + answer.toString()));
  return answer;
}

/** The explanation of the last error; this text if there is none. */
function explained(otherwise: string): string {
  const text = new ArrayBuffer(512);
  const length = importedError(at(text), 512);
  const why = String.UTF8.decodeUnsafe(at(text), length < 0 ? 0 : min(length, 512));
  return why.length > 0 ? why : otherwise;
}

/** What the handle in `pair` stands for. */
function taken(): ArrayBuffer {
  const bytes = new ArrayBuffer(<i32>pair[1]);
  const error = importedMove(pair[0], at(bytes), pair[1]);
  if (error != 0) throw new Error("error " + error.toString() + " of WASI");
  return bytes;
}

function textOf(which: u32): string {
  const text = new ArrayBuffer(256);
  const length = importedText(which, at(text), 256);
  return String.UTF8.decodeUnsafe(at(text), length < 0 ? 0 : min(length, 256));
}

// -- Slots and the instance -------------------------------------------------------------------------------------------------

/** Waits until a slot is filled, and takes over what it has. */
export function take(slot: string): ArrayBuffer {
  const content = takeIfThere(slot, 1);
  if (!content) throw new Error("slot " + slot + " is empty");
  return content;
}

/** The same, if it is filled now. */
export function tryTake(slot: string): ArrayBuffer | null {
  return takeIfThere(slot, 0);
}

function takeIfThere(slot: string, wait: u32): ArrayBuffer | null {
  const name = encoded(slot);
  const error = importedTake(at(name), size(name), wait, changetype<usize>(pair));
  if (error == EMPTY && wait == 0) return null;
  if (error != 0) throw new Error(explained("slot " + slot + ": error " + error.toString() + " of WASI"));
  return taken();
}

/** Waits until a slot is filled, and takes over its text. */
export function takeText(slot: string): string {
  return String.UTF8.decode(take(slot));
}

/** Fills a slot with a copy of these bytes. */
export function publish(slot: string, content: ArrayBuffer): void {
  fill(slot, content, 0);
}

/** Fills a slot with a text. */
export function publishText(slot: string, text: string): void {
  fill(slot, encoded(text), 1);
}

function fill(slot: string, content: ArrayBuffer, isText: u32): void {
  const name = encoded(slot);
  const error = importedPublish(at(name), size(name), at(content), size(content), isText);
  if (error != 0) throw new Error(explained("slot " + slot + ": error " + error.toString() + " of WASI"));
}

/** Which of the step's instances this is, from 0. */
export function instanceIndex(): i32 {
  return importedIndex();
}

/** How many there are. */
export function instanceCount(): i32 {
  return importedCount();
}

/** Which attempt this is, from 1. */
export function attempt(): i32 {
  return importedAttempt();
}

/** The name of the step. */
export function step(): string {
  return textOf(STEP);
}

/** The id of the invocation, by which others send it events. */
export function invocationId(): string {
  return textOf(INVOCATION);
}

/** How often the invocation has gone on from a checkpoint. */
export function generation(): i64 {
  return importedNumber(GENERATION);
}

/** Says that the program is ready for its inputs: true in an instance that has started here, from a template. */
export function ready(): bool {
  return importedReady() == 1;
}

/** Ends the instance as failed, with this text; if it is permanent, it is not tried again. */
export function fail(isPermanent: bool, why: string): void {
  const text = encoded(why);
  importedFail(isPermanent ? 1 : 0, at(text), size(text));
}

// -- Events and what is published -------------------------------------------------------------------------------------------

/** An event that was taken. */
export class Event {
  constructor(public name: string, public content: ArrayBuffer) {}

  /** Its content as a text. */
  get text(): string {
    return String.UTF8.decode(this.content);
  }
}

/** Waits for the first event of one of these names, at most so long, and takes it. Without one in time it is `null`. */
export function firstOf(names: string[], timeout: f64 = FOREVER): Event | null {
  for (let i = 0; i < names.length; i++) {
    // With a line break it would be several.
    for (let j = 0; j < names[i].length; j++) {
      if (names[i].charCodeAt(j) < 32) throw new Error("the name of an event has no control characters");
    }
  }
  const all = encoded(names.join("\n"));
  const which = importedEvent(at(all), size(all), nanoseconds(timeout), changetype<usize>(pair));
  if (which == TIMED_OUT) return null;
  return new Event(names[must(which)], taken());
}

/** The same for one name. */
export function event(name: string, timeout: f64 = FOREVER): Event | null {
  return firstOf([name], timeout);
}

/** Sends an event to another invocation. */
export function send(invocation: string, name: string, content: ArrayBuffer): void {
  const to = encoded(invocation), event = encoded(name);
  must(importedSend(at(to), size(to), at(event), size(event), at(content), size(content)));
}

/** Publishes a text, which others see while the workflow goes on. */
export function state(name: string, text: string): void {
  const key = encoded(name), value = encoded(text);
  must(importedState(at(key), size(key), at(value), size(value)));
}

/** What the version of the workflow before this one had published under a name, if there was one. */
export function handedOver(name: string): string | null {
  const key = encoded(name);
  const answer = importedHandedOver(at(key), size(key), changetype<usize>(pair));
  if (answer == NOT_FOUND) return null;
  must(answer);
  return String.UTF8.decode(taken());
}

/** Sleeps, for years if need be: a workflow in which everything waits can be suspended. A sleep has an end. */
export function sleep(seconds: f64): void {
  const time = nanoseconds(seconds);
  if (time == u64.MAX_VALUE) throw new Error("a sleep has an end");
  // A subscription to a clock: which clock, how long, and how exactly.
  const subscription = new StaticArray<u64>(6), event = new StaticArray<u64>(4), count = new StaticArray<u32>(1);
  subscription[2] = MONOTONIC;
  subscription[3] = time;
  importedPoll(changetype<usize>(subscription), changetype<usize>(event), 1, changetype<usize>(count));
}

// -- Callbacks --------------------------------------------------------------------------------------------------------------

/** How a client has answered. */
export enum Ending {
  Completed,
  Rejected,
  TimedOut,
  Silent,
}

/** What has become of a callback: how it ended, and what the client has sent. */
export class Answer {
  constructor(public ending: Ending, public content: ArrayBuffer) {}

  /** What the client has sent, as a text. */
  get text(): string {
    return String.UTF8.decode(this.content);
  }
}

/** A wait that a client ends which knows the token: `POST /callbacks/ID/TOKEN` of a server, or `monohull send ID TOKEN`. */
export class Callback {
  /** The name of an event that cannot be guessed. */
  readonly token: string;

  constructor() {
    const secret = new Uint8Array(16);
    if (importedRandom(secret.dataStart, 16) != 0) throw new Error("there are no random numbers");
    let token = "callback-";
    for (let i = 0; i < 16; i++) token += (<u32>secret[i]).toString(16).padStart(2, "0");
    this.token = token;
  }

  /**
   * Waits for the answer, at most for the timeout. With a heartbeat the client has to tell that it is still at it before so much time is over, each
   * time; without, one that tells so is refused.
   */
  answer(timeout: f64 = FOREVER, heartbeat: f64 = FOREVER): Answer {
    const names = [this.token, this.token + ":rejected"];
    if (heartbeat != FOREVER) names.push(this.token + ":heartbeat");
    const all = encoded(names.join("\n"));
    const wait = nanoseconds(timeout), silence = nanoseconds(heartbeat), begun = now();
    let answer: Answer | null = null;
    while (!answer) {
      const gone = now() - begun;
      const left = wait == u64.MAX_VALUE ? wait : wait > gone ? wait - gone : 0;
      const isLast = left <= silence;
      const which = importedEvent(at(all), size(all), isLast ? left : silence, changetype<usize>(pair));
      if (which == TIMED_OUT) {
        answer = new Answer(isLast ? Ending.TimedOut : Ending.Silent, new ArrayBuffer(0));
      } else {
        must(which);
        const content = taken();
        if (which < 2) answer = new Answer(which == 0 ? Ending.Completed : Ending.Rejected, content);
      }
    }
    return answer!;
  }
}

// -- Save points, copies, effects -------------------------------------------------------------------------------------------

/** Makes a save point: true if the invocation has been taken back there. */
export function checkpoint(label: string): bool {
  const text = encoded(label);
  return must(importedCheckpoint(at(text), size(text))) == 1;
}

/** Makes copies of the invocation, in which the call returns too: 0 in the original, in a copy its number, from 1. */
export function fork(copies: i32): i32 {
  const which = must(importedFork(copies, changetype<usize>(pair)));
  taken();
  return which;
}

/** The reply to a request, or the report of a handler that has failed. */
export class Reply {
  constructor(public hasFailed: bool, public content: ArrayBuffer) {}

  /** It as a text. */
  get text(): string {
    return String.UTF8.decode(this.content);
  }
}

/** Asks for an effect, and waits for the reply. */
export function perform(effect: string, request: ArrayBuffer): Reply {
  const name = encoded(effect);
  const answer = must(importedPerform(at(name), size(name), at(request), size(request), changetype<usize>(pair)));
  return new Reply(answer == 1, taken());
}

/** How often the steps of each name were begun. */
const uses = new Map<string, i32>();

/** A key for an effect on the outside that no other has, and that is the same when it is done again: an HTTP service gets it as its `Idempotency-Key`. */
export function stepKey(name: string): string {
  const number = uses.has(name) ? uses.get(name) : 0;
  uses.set(name, number + 1);
  return invocationId() + "/" + step() + "/" + instanceIndex().toString() + "/" + name + "/" + number.toString();
}

// -- Children ---------------------------------------------------------------------------------------------------------------

/** How a child has ended. */
export enum ChildEnding {
  Completed,
  Failed,
  Cancelled,
  Refused,
  TooLarge,
}

/** The end of a child. */
export class End {
  constructor(public ending: ChildEnding, private told: ArrayBuffer) {}

  /** What an output slot has; `null` if it has nothing. */
  output(slot: string): ArrayBuffer | null {
    return slot.length == 0 ? null : this.part(slot);
  }

  /** The same; without a name it is the message. */
  private part(slot: string): ArrayBuffer | null {
    const name = encoded(slot);
    const answer = importedOutput(at(this.told), size(this.told), at(name), size(name), changetype<usize>(pair));
    if (answer == NOT_FOUND) return null;
    must(answer);
    return this.told.slice(<i32>pair[0], <i32>(pair[0] + pair[1]));
  }

  /** Why it has failed. */
  get message(): string {
    const text = this.part("");
    return text ? String.UTF8.decode(text) : "";
  }
}

/** Starts an invocation of another workflow as a child. The same id with the same workflow and input is the same child. */
export function start(workflow: string, id: string, input: ArrayBuffer, isDetached: bool = false): void {
  const name = encoded(workflow), own = encoded(id), detached: u32 = isDetached ? 1 : 0;
  must(importedStart(at(name), size(name), at(own), size(own), at(input), size(input), detached));
}

/** Waits for the end of a child, at most so long. Without one in time it is `null`. */
export function join(id: string, timeout: f64 = FOREVER): End | null {
  const own = encoded(id);
  const ending = importedJoin(at(own), size(own), nanoseconds(timeout), changetype<usize>(pair));
  if (ending == TIMED_OUT) return null;
  return new End(<ChildEnding>must(ending), taken());
}

/** Cancels a child. */
export function cancel(id: string): void {
  const own = encoded(id);
  must(importedCancel(at(own), size(own)));
}
