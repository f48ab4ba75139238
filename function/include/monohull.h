/* Slots, events and the instance, for functions in C. Each function is documented in function/src/c.rs.
 *
 *   monohull_buffer in, out;
 *   if (monohull_take("text", &in) < 0) { ... }
 *   if (monohull_make(in.len, &out) < 0) { ... }
 *   memcpy(out.data, in.data, in.len);
 *   out.len = in.len;
 *   if (monohull_publish("copy", &out) < 0) { ... }
 *   monohull_discard(&in);
 */
#ifndef MONOHULL_H
#define MONOHULL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A buffer that the caller owns. `data` is null if there is none. */
typedef struct monohull_buffer {
    unsigned char *data;
    size_t len;      /* bytes in use */
    size_t capacity; /* bytes that there is room for */
} monohull_buffer;

/* A continuation that the caller owns: the rest of a function that waits in monohull_call_cc. It is used once. `token` is 0 if there is none; another one than was given
 * is refused. */
typedef struct monohull_continuation {
    uint64_t token;
} monohull_continuation;

/* Errors. Functions that return `int` return 0 or one of these, or another negative number of the hostcall interface. */
#define MONOHULL_NOT_PERMITTED (-1)
#define MONOHULL_NOT_FOUND (-2)
#define MONOHULL_OUT_OF_MEMORY (-12)
#define MONOHULL_BUSY (-16)
#define MONOHULL_EXISTS (-17)
#define MONOHULL_INVALID (-22)
#define MONOHULL_MESSAGE_TOO_LONG (-90)
#define MONOHULL_TOO_MANY (-105)
#define MONOHULL_TIMED_OUT (-110)
#define MONOHULL_WRONG_TYPE (-1001)
#define MONOHULL_NEVER_FILLED (-1002)
#define MONOHULL_GIVEN_AWAY (-1003)

/* How a child has ended. Of one that was refused or whose outputs are too large the message says more. */
#define MONOHULL_CHILD_COMPLETED 0
#define MONOHULL_CHILD_FAILED 1
#define MONOHULL_CHILD_CANCELLED 2
#define MONOHULL_CHILD_REFUSED 3
#define MONOHULL_CHILD_TOO_LARGE 4

/* How a callback was answered, and the room that a token takes with the zero byte at its end. */
#define MONOHULL_ANSWER_COMPLETED 0
#define MONOHULL_ANSWER_REJECTED 1
#define MONOHULL_ANSWER_TIMED_OUT 2
#define MONOHULL_ANSWER_SILENT 3
#define MONOHULL_TOKEN_ROOM 42

/* How often a step is tried, in all, and the pauses in nanoseconds: the first, and the longest. 0 is once, a second, an hour. */
typedef struct monohull_retry {
    uint32_t attempts;
    uint64_t first;
    uint64_t longest;
} monohull_retry;

/* The room that the key of a step takes with the zero byte at its end. */
#define MONOHULL_STEP_KEY_ROOM 512

/* Waits until a slot is filled, and takes its buffer: bytes or text. */
int monohull_take(const char *slot, monohull_buffer *buffer);
/* Takes it if the slot is filled now; else MONOHULL_NOT_FOUND. */
int monohull_try_take(const char *slot, monohull_buffer *buffer);
/* Takes the next event of a name, which is sent from outside; waits for it at most so many nanoseconds, or without end for
 * UINT64_MAX. MONOHULL_TIMED_OUT if there is none by then. */
int monohull_event(const char *name, uint64_t timeout, monohull_buffer *buffer);

/* The same for the first of several events, whose names have a line break between two ("paid\ncancelled"): which of them was sent
 * first, from 0, or a negative error. */
int monohull_first_of(const char *names, uint64_t timeout, monohull_buffer *buffer);
/* The name of the event that tells the invocation to end, of which there is one: a function that waits for it undoes what it has done and returns
 * ("paid\n" MONOHULL_CANCEL). One that does not is ended when it is cancelled. */
#define MONOHULL_CANCEL "cancel:"
/* Makes the token of a callback in MONOHULL_TOKEN_ROOM bytes: the name of an event that cannot be guessed. A client that knows it and the invocation's id
 * answers: `POST /callbacks/ID/TOKEN` of a server, or `monohull send ID TOKEN`. */
int monohull_callback(char *token);
/* Waits for the answer: MONOHULL_ANSWER_COMPLETED or MONOHULL_ANSWER_REJECTED, and the buffer has what the client has sent; MONOHULL_ANSWER_TIMED_OUT after
 * `timeout` nanoseconds; MONOHULL_ANSWER_SILENT if the client has not said for `heartbeat` nanoseconds that it is still at it (`.../TOKEN/heartbeat`).
 * UINT64_MAX is no end; without an end of the heartbeat a client that says so is told that this is not waited for. Or a negative error. Another text than a
 * token is MONOHULL_INVALID at once. In a native program monohull_last_error does not explain that, since the system is not asked: its text is an earlier one. */
int monohull_answer(const char *token, uint64_t timeout, uint64_t heartbeat, monohull_buffer *content);
/* Copies the address that answers it, cut to `room` with the zero byte at its end: the length of all of it. It is whole if the server was
 * started with `--public-url`, else the path `/callbacks/ID/TOKEN`. */
size_t monohull_callback_url(const char *token, char *url, size_t room);
/* Does what has an effect on the outside, such as a payment: `act` is called with a key that is the same when it is done again, after a
 * kill, in a new attempt of the instance and after a rewind, and that no other step has. A service gets it as its `Idempotency-Key`. Nothing is
 * kept by this call: a process that is killed does again what it has done since its last wait or monohull_checkpoint, with the same keys.
 * monohull_checkpoint behind it keeps it.
 *
 * 0 if `act` has returned 0. If it returns another number it is tried again, with the same key, as often as `retry` says: what the last attempt
 * has returned. The pauses are sleeps, in which the workflow may be suspended; each is twice as long as the one before, and is shortened by up
 * to a half, by a fixed rule. A negative error if it cannot begin: MONOHULL_INVALID for a name of more than 128 bytes, MONOHULL_TOO_MANY after
 * 256 names. */
int monohull_step(const char *name, const monohull_retry *retry, int (*act)(const char *key, void *context), void *context);
/* The key of a step alone, in MONOHULL_STEP_KEY_ROOM bytes: 0, or a negative error. Each call begins another step. */
int monohull_step_key(const char *name, char *key);
/* Copies the id of the invocation, cut to `room` with the zero byte at its end: the length of all of it, 0 in a run that is none. */
size_t monohull_invocation_id(char *text, size_t room);
/* The same of the name of this instance's step. */
size_t monohull_step_name(char *text, size_t room);
/* How often the invocation has gone on from a checkpoint. What was drawn at random for secrets is drawn again when it has changed. */
uint64_t monohull_generation(void);
/* Publishes a text, in place of the one before: it is read from outside while the workflow waits, and after its end. */
int monohull_state(const char *name, const char *text);
/* Fills a buffer with the text that the version before this one had published under a name, if the invocation was migrated to this version; else
 * MONOHULL_NOT_FOUND. */
int monohull_handed_over(const char *name, monohull_buffer *text);
/* Sends an event to the invocation of an id, with the next checkpoint of this one or its end; MONOHULL_NOT_PERMITTED if `sends_to` of the
 * workflow file names no workflow, or there is no other invocation. */
int monohull_send(const char *invocation, const char *name, const void *data, size_t len);
/* Starts an invocation of another workflow as a child, with the next checkpoint of this one or its end. The same id with the same workflow and input is the
 * same child. With `detached` 1 it goes on when this invocation has ended, and its end is not told; else 0. MONOHULL_NOT_PERMITTED if `starts` of
 * the workflow file does not name the workflow. */
int monohull_start_child(const char *workflow, const char *id, const void *input, size_t len, int detached);
/* Waits until a child has ended, or for `timeout` nanoseconds (UINT64_MAX: for ever): how it has ended, MONOHULL_CHILD_COMPLETED and so on, or a negative
 * error. What is told of it is in the buffer, which is then the caller's. */
int monohull_join(const char *id, uint64_t timeout, monohull_buffer *end);
/* What an output slot of a child has: it lies in the buffer of `monohull_join`. With `slot` NULL the message, which says why a child failed. */
int monohull_child_output(const monohull_buffer *end, const char *slot, const uint8_t **data, size_t *len);
/* Cancels a child, with the next checkpoint of this invocation. */
int monohull_cancel_child(const char *id);
/* Asks for an effect with `len` bytes, which are copied, and waits for the reply of the step that handles it: 0, and the buffer has the reply. 1 if the
 * handler has failed: the buffer has the reason. MONOHULL_NOT_FOUND if no step handles the effect. A handler takes the slot "request" and
 * publishes the slot "reply". */
int monohull_perform(const char *effect, const void *request, size_t len, monohull_buffer *reply);
/* Publishes the continuation of this call in a slot, and waits until another function uses it: 0, and the buffer has what with. MONOHULL_NEVER_FILLED if it was
 * dropped, or its last owner has ended. */
int monohull_call_cc(const char *slot, monohull_buffer *value);
/* Takes a continuation from a slot, waiting until there is one, and uses it with `len` bytes, which are copied. MONOHULL_NOT_FOUND if the instance that waited has
 * ended. It is dropped after an error. */
int monohull_resume(const char *slot, const void *value, size_t len);
/* Takes a continuation from a slot, waiting until there is one; or only if there is one now, else MONOHULL_NOT_FOUND. */
int monohull_take_continuation(const char *slot, monohull_continuation *continuation);
int monohull_try_take_continuation(const char *slot, monohull_continuation *continuation);
/* Hands it on in a slot; after an error it is still the caller's. */
int monohull_publish_continuation(const char *slot, monohull_continuation *continuation);
/* Uses it with `len` bytes, which are copied; after an error it is still the caller's. */
int monohull_resume_continuation(monohull_continuation *continuation, const void *value, size_t len);
/* Frees it: what waits gets MONOHULL_NEVER_FILLED. With `at_once` 0, and of one that was taken from a slot, it does when this instance has ended well: after a failure the
 * continuation is in its slot again, for the next attempt. With `at_once` 1 it does now, and this instance is not repeated alone. */
void monohull_drop_continuation(monohull_continuation *continuation, int at_once);
/* Makes a save point with a label, durably: 0 if it has gone on, 1 if it has come back there, or a negative error. */
int monohull_checkpoint(const char *label);
/* Makes 1 to 100 copies of this invocation, in which the call returns too: 0 in the one that has asked, in a copy its number, from 1, or a negative
 * error. */
int monohull_fork(uint32_t copies);
/* Makes a buffer of zeros with room for `capacity` bytes, of which none is in use. */
int monohull_make(size_t capacity, monohull_buffer *buffer);
/* To be called before the first write to a buffer that was taken. */
int monohull_will_write(const monohull_buffer *buffer);
/* Publishes the bytes in use; after an error the buffer is still the caller's. */
int monohull_publish(const char *slot, monohull_buffer *buffer);
/* Frees a buffer. */
void monohull_discard(monohull_buffer *buffer);
/* Copies the explanation of this thread's last error, and returns its length. */
size_t monohull_last_error(char *text, size_t room);

/* Which of its step's instances this is, from 0; how many there are; which attempt this is, from 1. */
uint64_t monohull_instance_index(void);
uint64_t monohull_instance_count(void);
uint64_t monohull_attempt(void);

/* Ends this instance as failed, with this text. With `is_permanent` 1 another attempt cannot change that, and there is none; else 0. Flush `stdout` before. */
void monohull_fail(int is_permanent, const char *why) __attribute__((noreturn));

/* Says that the function is ready for its inputs: what comes before is the same for all instances, and later ones start here. 1 if this one
 * has, else 0. Slots, events, files, output, threads and random numbers come afterwards, or there is no template to start from. */
int monohull_ready(void);

/* Captures the memory of this instance, which has one thread: 0, and a number in `checkpoint`. Returns 1 once more for each
 * monohull_rewind to it, with the value that came with that in `value`, of `len` bytes. Before the call `*len` is the room in `value`. Memory is
 * what it was at the capture; files, slots, output and time do not go back. Flush `stdout` before. */
int monohull_capture(uint64_t *checkpoint, unsigned char *value, size_t *len);
/* Goes back there. Returns only if it is refused: MONOHULL_GIVEN_AWAY if memory of then names something that has been closed or given away,
 * MONOHULL_BUSY if there are other threads, ... Nothing has changed then. */
int monohull_rewind(uint64_t checkpoint, const unsigned char *value, size_t len);
/* Frees a checkpoint. */
int monohull_forget(uint64_t checkpoint);

#ifdef __cplusplus
}
#endif

#endif
