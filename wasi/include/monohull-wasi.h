/* Slots, events and the instance for WebAssembly programs in C and C++: what Monohull's runtime offers in the module `monohull` beside WASI preview 1.
 *
 *     clang --target=wasm32-wasi -O2 -I wasi/include app.c -o app.wasm && monohull build app.wasm
 *
 * These are the imports as they are. Most programs rather use `function/include/monohull.h`, which is for native programs as well: for WebAssembly
 * its functions are in `wasi/lib/monohull.c`, which is compiled with the program.
 *
 * Functions of slots return 0, or an error number of WASI (<errno.h> of wasi-libc). Names are UTF-8, at most 255 bytes, and need no
 * zero at their end.
 */
#ifndef MONOHULL_WASI_H
#define MONOHULL_WASI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MONOHULL_IMPORT(name) __attribute__((import_module("monohull"), import_name(name)))

/* A buffer that was taken over from a slot, or what the program was told otherwise: an event, a reply. It lies outside of the program's memory, and is copied in parts, or moved as a whole. */
struct monohull_slot {
    uint32_t handle;
    uint32_t length;
};

/* Takes over the bytes or the text in a slot. `wait` 0: EAGAIN if the slot is empty. ENOENT: no step is left that could fill it. */
int monohull_slot_take(const char *name, size_t name_length, int wait, struct monohull_slot *slot) MONOHULL_IMPORT("slot_take");

/* Copies a part of it. */
int monohull_slot_read(uint32_t handle, uint32_t offset, void *to, size_t length) MONOHULL_IMPORT("slot_read");

/* From so many bytes on, what begins with a page is moved and not copied. The fastest is a place aligned to 2 MiB that was not yet used. */
#define MONOHULL_PAGE 4096
#define MONOHULL_MOVED_MIN 65536

/* Puts all of it to `to`, where there are `length` bytes or more, and frees it. Where `to` begins with a page, pages take the place of those
 * that were there. EINVAL: it is longer. */
int monohull_slot_move(uint32_t handle, void *to, size_t length) MONOHULL_IMPORT("slot_move");

/* Frees it. */
int monohull_slot_free(uint32_t handle) MONOHULL_IMPORT("slot_free");

/* Fills a slot with a copy of these bytes; as text, which must be UTF-8, if `is_text` is not 0. */
int monohull_slot_publish(const char *name, size_t name_length, const void *bytes, size_t length, int is_text)
    MONOHULL_IMPORT("slot_publish");

/* Fills a slot with these bytes, which are zero afterwards. Where they begin with a page, pages become the slot's. After an error they are as they
 * were; of more than 64 MiB some may be zero. */
int monohull_slot_publish_moved(const char *name, size_t name_length, void *bytes, size_t length, int is_text)
    MONOHULL_IMPORT("slot_publish_moved");

/* A program with `wasi/lib/monohull.c` that includes monohull.h before this has those of that. */
#ifndef MONOHULL_H
/* Which of the step's instances this is, from 0; how many there are; which attempt this is, from 1. */
uint32_t monohull_instance_index(void) MONOHULL_IMPORT("instance_index");
uint32_t monohull_instance_count(void) MONOHULL_IMPORT("instance_count");
uint32_t monohull_attempt(void) MONOHULL_IMPORT("attempt");

/* Says that the program is ready for its inputs: what comes before is the same for all instances, and later ones start here. 1 if this one has, else 0.
 * Slots, files, output and random numbers come afterwards, or there is no template to start from. */
int monohull_ready(void) MONOHULL_IMPORT("ready");
#endif

/* Random bytes that may be drawn before: instances of one template have them in common. */
int monohull_common_random(void *bytes, size_t length) MONOHULL_IMPORT("common_random");

/* -- Connections --
 *
 * wasi-libc has no getsockname, getpeername, connect and getaddrinfo. Functions of sockets return 0, or an error number of WASI; EPERM is what the workflow's `network`
 * does not grant. Why a connection or a name was refused is told by `monohull_wasi_last_error`. */
struct monohull_socket_address {
    uint32_t family; /* 4 or 6 */
    uint32_t port;
    uint8_t address[16]; /* in network order; of IPv4 the first four bytes */
    uint32_t flow, scope;
};

/* Connects to a host, which is a name or an address in numbers, over TCP: to each of its addresses in turn, until one answers. A connected descriptor for `read`, `write`,
 * `send`, `recv`, `poll`, `shutdown` and `close`, whose calls wait; or -1 with the reason in `errno`, of several addresses that of the last. ETIMEDOUT: no connection was there after
 * so many milliseconds, of which there is no limit for -1. Looking up the name comes before, and is not limited. This is no import: it is in
 * `wasi/lib/monohull.c`, which is compiled with the program. */
int monohull_connect(const char *host, unsigned port, int milliseconds);

/* What it is made of. `socket_connect` begins a connection, and does not wait: the descriptor has O_NONBLOCK, and `poll` finds it ready for writing when the connection
 * is made or has failed. `socket_failure` says which: 0, or why it has failed, which is told once. */
int monohull_socket_connect(const struct monohull_socket_address *address, int *descriptor) MONOHULL_IMPORT("socket_connect");
int monohull_socket_failure(int descriptor) MONOHULL_IMPORT("socket_failure");

/* Looks up a name: how many addresses it has, at most `most`, and these, with the port 0. Waits until they are known. ENOENT: there is no such name. */
#define MONOHULL_LOOKUP_MAX 32
int monohull_lookup(const char *name, size_t length, struct monohull_socket_address *addresses, uint32_t most, uint32_t *count)
    MONOHULL_IMPORT("lookup");

/* The address at an end of a socket: its own (`end` 0), or that of the other side (1). */
int monohull_socket_address(int descriptor, int end, struct monohull_socket_address *address) MONOHULL_IMPORT("socket_address");

/* What `setjmp` and `longjmp` are for, which WebAssembly has not. `protect` calls `function` with `argument`: 0 if it has returned, 1 if `escape` was called in it,
 * however deep, which ends all calls up to the last `protect`. The program is linked with --export-table. A function that calls `protect` needs a
 * variable whose address it gives away: then it has a frame on the stack in memory, and with its return that stack is as it was. */
int monohull_protect(void (*function)(void *argument), void *argument) MONOHULL_IMPORT("protect");
void monohull_escape(void) __attribute__((noreturn)) MONOHULL_IMPORT("escape");

/* -- Events, children, effects, continuations, checkpoints --
 *
 * Functions below return what those of `monohull.h` return that have the same name without `wasi_`: 0 or more, or a negative error number of
 * `monohull.h`; -14 is an address outside of the program's memory. What there is to read has a handle, as a slot has: `monohull_slot_read`, `monohull_slot_move`,
 * `monohull_slot_free`. Times are nanoseconds; UINT64_MAX is no end. */

/* Takes the first event of names that have a line break between two: which of them, from 0. */
int monohull_wasi_event(const char *names, size_t length, uint64_t timeout, struct monohull_slot *event) MONOHULL_IMPORT("event");
int monohull_wasi_send(const char *invocation, size_t invocation_length, const char *name, size_t name_length, const void *bytes, size_t length)
    MONOHULL_IMPORT("send");
int monohull_wasi_state(const char *name, size_t name_length, const char *text, size_t length) MONOHULL_IMPORT("state");
int monohull_wasi_handed_over(const char *name, size_t length, struct monohull_slot *text) MONOHULL_IMPORT("handed_over");
int monohull_wasi_start_child(const char *workflow, size_t workflow_length, const char *id, size_t id_length, const void *input, size_t length,
                              int detached) MONOHULL_IMPORT("start_child");
int monohull_wasi_join(const char *id, size_t length, uint64_t timeout, struct monohull_slot *end) MONOHULL_IMPORT("join");
/* Where the content of an output lies in what `join` has given, of which these are all bytes; of no name, the message. */
struct monohull_part {
    uint32_t offset;
    uint32_t length;
};
int monohull_wasi_child_output(const void *end, size_t end_length, const char *slot, size_t length, struct monohull_part *part)
    MONOHULL_IMPORT("child_output");
/* The id of a child's invocation: copied as the texts below. */
int monohull_wasi_child_id(const char *id, size_t length, char *to, size_t room) MONOHULL_IMPORT("child_id");
int monohull_wasi_cancel_child(const char *id, size_t length) MONOHULL_IMPORT("cancel_child");
int monohull_wasi_perform(const char *effect, size_t effect_length, const void *request, size_t length, struct monohull_slot *reply)
    MONOHULL_IMPORT("perform");
/* A continuation has a handle, of another kind than what there is to read. `continuation` makes one of this instance: the handle, and in `number` what `continuation_wait`
 * waits by for what it is used with. */
int monohull_wasi_continuation(uint64_t *number) MONOHULL_IMPORT("continuation");
int monohull_wasi_continuation_wait(uint64_t number, struct monohull_slot *value) MONOHULL_IMPORT("continuation_wait");
/* Takes one from a slot: the handle. With `wait` 0 MONOHULL_NOT_FOUND if the slot is empty. */
int monohull_wasi_continuation_take(const char *slot, size_t length, int wait) MONOHULL_IMPORT("continuation_take");
/* Hands it on, or uses it with a copy of these bytes: the handle is free then. After an error it is still the program's. */
int monohull_wasi_continuation_publish(uint32_t handle, const char *slot, size_t length) MONOHULL_IMPORT("continuation_publish");
int monohull_wasi_continuation_resume(uint32_t handle, const void *value, size_t length) MONOHULL_IMPORT("continuation_resume");
/* Frees it. With `at_once` 1 what waits gets its error now, and this instance is not repeated alone; else, of one that was taken from a slot, when this instance has ended
 * well. */
int monohull_wasi_continuation_free(uint32_t handle, int at_once) MONOHULL_IMPORT("continuation_free");
int monohull_wasi_checkpoint(const char *label, size_t length) MONOHULL_IMPORT("checkpoint");
/* What there is to read is the ids of the copies, with line breaks between them; none in a copy. */
int monohull_wasi_fork(uint32_t copies, struct monohull_slot *ids) MONOHULL_IMPORT("fork");
/* How often it was gone back to. */
int monohull_wasi_capture(uint64_t *checkpoint, void *value, uint32_t *length) MONOHULL_IMPORT("capture");
int monohull_wasi_rewind(uint64_t checkpoint, const void *value, size_t length) MONOHULL_IMPORT("rewind");
int monohull_wasi_forget(uint64_t checkpoint) MONOHULL_IMPORT("forget");

/* A number of the instance by the number that `GET_INFO` of docs/abi.md has for it. */
#define MONOHULL_GENERATION 13
#define MONOHULL_FORK_INDEX 14
#define MONOHULL_FORK_COUNT 15
int64_t monohull_wasi_number(uint32_t which) MONOHULL_IMPORT("number");
/* Copies as much as there is room for of a text of the instance, by the number that `GET_STRING` has for it; and of the explanation of the last error of a
 * function of this part, or of one of slots. Returns the length of all of it. No zero follows. */
#define MONOHULL_STEP 3
#define MONOHULL_WORKFLOW 4
#define MONOHULL_INVOCATION 6
#define MONOHULL_PUBLIC_URL 8
int monohull_wasi_text(uint32_t which, char *to, size_t room) MONOHULL_IMPORT("text");
int monohull_wasi_last_error(char *to, size_t room) MONOHULL_IMPORT("last_error");
/* Ends the instance as failed, with this text; if `is_permanent` is 1, another attempt cannot change that. */
void monohull_wasi_fail(int is_permanent, const char *text, size_t length) __attribute__((noreturn)) MONOHULL_IMPORT("fail");

/* Bytes of the stack that are left. */
uint32_t monohull_stack_left(void) MONOHULL_IMPORT("stack_left");

/* What is attached to the program: an interpreter's program. */
uint32_t monohull_attachment_length(void) MONOHULL_IMPORT("attachment_length");
int monohull_attachment_read(uint32_t offset, void *to, size_t length) MONOHULL_IMPORT("attachment_read");

#ifdef __cplusplus
}
#endif

#endif
