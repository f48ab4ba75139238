/* `function/include/monohull.h` for WebAssembly programs, over the imports of `wasi/include/monohull-wasi.h`. It is compiled with the program:
 *
 *     clang --target=wasm32-wasi -O2 -I function/include -I wasi/include app.c wasi/lib/monohull.c -o app.wasm && monohull build app.wasm
 *
 * A native program's buffer is the slot's memory itself. Here it is memory of the program's allocator: from MONOHULL_MOVED_MIN bytes on pages are
 * moved there and from there, and less is copied.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
/* Both headers have these, and they are of other types. */
#define monohull_instance_index imported_index
#define monohull_instance_count imported_count
#define monohull_attempt imported_attempt
#define monohull_ready imported_ready
#include "monohull-wasi.h"
#undef monohull_instance_index
#undef monohull_instance_count
#undef monohull_attempt
#undef monohull_ready
#include "monohull.h"

static const monohull_buffer none;

/* -- Errors -------------------------------------------------------------------------------------------------------------- */

/* Why the last call has failed, if that is known here; else the runtime is asked. */
static char explanation[512];

size_t monohull_last_error(char *text, size_t room) {
    if (room == 0) return 0;
    size_t length = strlen(explanation);
    if (length == 0) {
        int all = monohull_wasi_last_error(text, room - 1);
        length = all < 0 ? 0 : (size_t)all;
    }
    if (length > room - 1) length = room - 1;
    if (explanation[0]) memcpy(text, explanation, length);
    text[length] = 0;
    return length;
}

/* What the runtime has answered: it knows why. */
static int answered(int answer) {
    if (answer < 0) explanation[0] = 0;
    return answer;
}

/* The number of `monohull.h` for one of WASI. */
static int number_of(int error) {
    switch (error) {
    case EPERM: case EACCES: return MONOHULL_NOT_PERMITTED;
    case EAGAIN: return MONOHULL_NOT_FOUND;
    case ENOENT: return MONOHULL_NEVER_FILLED;
    case ENOMEM: return MONOHULL_OUT_OF_MEMORY;
    case EBUSY: return MONOHULL_BUSY;
    case EEXIST: return MONOHULL_EXISTS;
    case EMSGSIZE: case EFBIG: return MONOHULL_MESSAGE_TOO_LONG;
    case ENOBUFS: return MONOHULL_TOO_MANY;
    default: return MONOHULL_INVALID;
    }
}

/* A call about a slot has failed: the runtime knows why, or the number says it. */
static int failed(const char *what, const char *slot, int error) {
    int told = monohull_wasi_last_error(explanation, sizeof explanation - 1);
    if (told > 0) {
        explanation[(size_t)told < sizeof explanation ? (size_t)told : sizeof explanation - 1] = 0;
        return number_of(error);
    }
    const char *why = error == ENOENT   ? "no step is left that could fill it"
                      : error == EAGAIN ? "it is empty"
                      : error == EEXIST ? "it is filled already"
                                        : strerror(error);
    snprintf(explanation, sizeof explanation, "%s slot `%.255s`: %s", what, slot, why);
    return number_of(error);
}

/* A text of the instance, cut to `room` with the zero at its end: the length of all of it. */
static size_t copy_text(uint32_t which, char *text, size_t room) {
    int length = monohull_wasi_text(which, text, room ? room - 1 : 0);
    if (length < 0) length = 0;
    if (room) text[(size_t)length < room ? (size_t)length : room - 1] = 0;
    return (size_t)length;
}

/* -- Buffers and slots --------------------------------------------------------------------------------------------------- */

/* Memory for so many bytes: whole pages where they may be moved. */
static int room_for(size_t capacity, monohull_buffer *buffer) {
    *buffer = none;
    if (capacity < MONOHULL_MOVED_MIN)
        buffer->data = malloc(capacity ? capacity : 1);
    else if (capacity <= SIZE_MAX - MONOHULL_PAGE)
        buffer->data = aligned_alloc(MONOHULL_PAGE, (capacity + MONOHULL_PAGE - 1) & -(size_t)MONOHULL_PAGE);
    if (buffer->data) {
        buffer->capacity = capacity;
        return 0;
    }
    snprintf(explanation, sizeof explanation, "there is no memory for %zu bytes", capacity);
    return MONOHULL_OUT_OF_MEMORY;
}

int monohull_make(size_t capacity, monohull_buffer *buffer) {
    int made = room_for(capacity, buffer);
    if (made == 0) memset(buffer->data, 0, capacity);
    return made;
}

void monohull_discard(monohull_buffer *buffer) {
    free(buffer->data);
    *buffer = none;
}

/* Takes what has a handle over into memory of the program: 0, an error number of WASI, or a negative one of `monohull.h`. */
static int fetch(const struct monohull_slot *slot, monohull_buffer *buffer) {
    int error = room_for(slot->length, buffer);
    if (error == 0) {
        error = monohull_slot_move(slot->handle, buffer->data, slot->length);
        buffer->len = slot->length;
        if (error == 0) return 0;
        monohull_discard(buffer);
    }
    monohull_slot_free(slot->handle);
    return error;
}

/* The same for what the runtime has given with an answer that is no error. */
static int fetched(int answer, const struct monohull_slot *slot, monohull_buffer *buffer) {
    *buffer = none;
    if (answered(answer) < 0) return answer;
    int error = fetch(slot, buffer);
    if (error <= 0) return error ? error : answer;
    snprintf(explanation, sizeof explanation, "%s", strerror(error));
    return number_of(error);
}

static int take(const char *name, int wait, monohull_buffer *buffer) {
    struct monohull_slot slot;
    *buffer = none;
    int error = monohull_slot_take(name, strlen(name), wait, &slot);
    if (error == 0) error = fetch(&slot, buffer);
    return error > 0 ? failed("take", name, error) : error;
}

int monohull_take(const char *slot, monohull_buffer *buffer) {
    return take(slot, 1, buffer);
}

int monohull_try_take(const char *slot, monohull_buffer *buffer) {
    return take(slot, 0, buffer);
}

/* It is the program's own. */
int monohull_will_write(const monohull_buffer *buffer) {
    (void)buffer;
    return 0;
}

int monohull_publish(const char *slot, monohull_buffer *buffer) {
    int error = monohull_slot_publish_moved(slot, strlen(slot), buffer->data, buffer->len, 0);
    if (error) return failed("publish", slot, error);
    monohull_discard(buffer);
    return 0;
}

/* -- Events -------------------------------------------------------------------------------------------------------------- */

int monohull_first_of(const char *names, uint64_t timeout, monohull_buffer *buffer) {
    struct monohull_slot event;
    return fetched(monohull_wasi_event(names, strlen(names), timeout, &event), &event, buffer);
}

int monohull_event(const char *name, uint64_t timeout, monohull_buffer *buffer) {
    int which = monohull_first_of(name, timeout, buffer);
    return which < 0 ? which : 0;
}

int monohull_send(const char *invocation, const char *name, const void *data, size_t len) {
    return answered(monohull_wasi_send(invocation, strlen(invocation), name, strlen(name), data, len));
}

int monohull_state(const char *name, const char *text) {
    return answered(monohull_wasi_state(name, strlen(name), text, strlen(text)));
}

int monohull_handed_over(const char *name, monohull_buffer *text) {
    struct monohull_slot slot;
    return fetched(monohull_wasi_handed_over(name, strlen(name), &slot), &slot, text);
}

/* -- Callbacks ----------------------------------------------------------------------------------------------------------- */

#define TOKEN_BEGINS "callback-"
#define REJECTED ":rejected"
#define HEARTBEAT ":heartbeat"

static uint64_t nanoseconds_now(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* When so many nanoseconds are over; UINT64_MAX is never. */
static uint64_t end_of(uint64_t timeout) {
    uint64_t now = nanoseconds_now();
    return timeout >= UINT64_MAX - now ? UINT64_MAX : now + timeout;
}

int monohull_callback(char *token) {
    unsigned char secret[16];
    *token = 0;
    if (getentropy(secret, sizeof secret) != 0) {
        snprintf(explanation, sizeof explanation, "there are no random numbers: %s", strerror(errno));
        return number_of(errno);
    }
    char *end = token + sprintf(token, TOKEN_BEGINS);
    for (size_t i = 0; i < sizeof secret; i++) end += sprintf(end, "%02x", secret[i]);
    return 0;
}

size_t monohull_callback_url(const char *token, char *url, size_t room) {
    char begins[512], id[128];
    copy_text(MONOHULL_PUBLIC_URL, begins, sizeof begins);
    copy_text(MONOHULL_INVOCATION, id, sizeof id);
    int length = snprintf(url, room, "%s/callbacks/%s/%s", begins, id, token);
    return length < 0 ? 0 : (size_t)length;
}

static int is_token(const char *text) {
    size_t begins = strlen(TOKEN_BEGINS);
    return strlen(text) == MONOHULL_TOKEN_ROOM - 1 && strncmp(text, TOKEN_BEGINS, begins) == 0
        && strspn(text + begins, "0123456789abcdef") == MONOHULL_TOKEN_ROOM - 1 - begins;
}

int monohull_answer(const char *token, uint64_t timeout, uint64_t heartbeat, monohull_buffer *content) {
    char names[3 * MONOHULL_TOKEN_ROOM + sizeof REJECTED + sizeof HEARTBEAT];
    *content = none;
    if (!is_token(token)) {
        snprintf(explanation, sizeof explanation, "this is no token of a callback");
        return MONOHULL_INVALID;
    }
    /* Without a heartbeat none is waited for, and a client that sends one is told so. */
    int length = snprintf(names, sizeof names, "%s\n%s" REJECTED, token, token);
    if (heartbeat != UINT64_MAX) snprintf(names + length, sizeof names - length, "\n%s" HEARTBEAT, token);
    uint64_t end = end_of(timeout);
    for (;;) {
        uint64_t now = nanoseconds_now(), left = end == UINT64_MAX ? UINT64_MAX : end > now ? end - now : 0;
        int is_last = left <= heartbeat, which = monohull_first_of(names, is_last ? left : heartbeat, content);
        if (which == MONOHULL_TIMED_OUT) return is_last ? MONOHULL_ANSWER_TIMED_OUT : MONOHULL_ANSWER_SILENT;
        if (which < 2) return which;
        monohull_discard(content);
    }
}

/* -- Steps --------------------------------------------------------------------------------------------------------------- */

#define STEP_NAME_MAX 128
#define SECOND 1000000000ull

/* How often the steps of each name were begun. */
static struct uses {
    struct uses *next;
    uint64_t count;
    char name[];
} *uses;

static struct uses *uses_of(const char *name) {
    struct uses *of = uses;
    while (of && strcmp(of->name, name) != 0) of = of->next;
    if (of || !(of = calloc(1, sizeof *of + strlen(name) + 1))) return of;
    strcpy(of->name, name);
    of->next = uses;
    return uses = of;
}

int monohull_step_key(const char *name, char *key) {
    char id[128], step[128];
    *key = 0;
    if (*name == 0 || strlen(name) > STEP_NAME_MAX) {
        snprintf(explanation, sizeof explanation, "the name of a step has 1 to %d bytes", STEP_NAME_MAX);
        return MONOHULL_INVALID;
    }
    struct uses *of = uses_of(name);
    if (!of) {
        snprintf(explanation, sizeof explanation, "there is no memory for the name of a step");
        return MONOHULL_OUT_OF_MEMORY;
    }
    copy_text(MONOHULL_INVOCATION, id, sizeof id);
    copy_text(MONOHULL_STEP, step, sizeof step);
    snprintf(key, MONOHULL_STEP_KEY_ROOM, "%s/%s/%u/%s/%llu", id, step, imported_index(), name, (unsigned long long)of->count++);
    return 0;
}

/* Between half of a pause and all of it, by the key and a number. */
static uint64_t shortened(uint64_t pause, const char *key, uint32_t number) {
    uint64_t hash = 0xcbf29ce484222325ull ^ number;
    for (; *key; key++) hash = (hash ^ (unsigned char)*key) * 0x100000001b3ull;
    return pause / 2 + pause / 2 / 1024 * (hash >> 32 & 1023);
}

int monohull_step(const char *name, const monohull_retry *retry, int (*act)(const char *key, void *context), void *context) {
    char key[MONOHULL_STEP_KEY_ROOM];
    monohull_retry usual = { 0, 0, 0 };
    int came = monohull_step_key(name, key);
    if (came < 0) return came;
    if (!retry) retry = &usual;
    uint64_t pause = retry->first ? retry->first : SECOND, longest = retry->longest ? retry->longest : 3600 * SECOND;
    for (uint32_t failures = 1;; failures++) {
        came = act(key, context);
        if (came == 0 || failures >= retry->attempts) return came;
        if (pause > longest) pause = longest;
        uint64_t left = shortened(pause, key, failures);
        struct timespec time = { (time_t)(left / SECOND), (long)(left % SECOND) };
        nanosleep(&time, NULL);
        pause = pause > UINT64_MAX / 2 ? UINT64_MAX : 2 * pause;
    }
}

/* -- Children ------------------------------------------------------------------------------------------------------------ */

int monohull_start_child(const char *workflow, const char *id, const void *input, size_t len, int detached) {
    return answered(monohull_wasi_start_child(workflow, strlen(workflow), id, strlen(id), input, len, detached));
}

int monohull_join(const char *id, uint64_t timeout, monohull_buffer *end) {
    struct monohull_slot slot;
    return fetched(monohull_wasi_join(id, strlen(id), timeout, &slot), &slot, end);
}

int monohull_child_output(const monohull_buffer *end, const char *slot, const uint8_t **data, size_t *len) {
    struct monohull_part part = { 0, 0 };
    /* Of no name it would be the message. */
    int answer = slot && *slot == 0 ? MONOHULL_NOT_FOUND
                                    : answered(monohull_wasi_child_output(end->data, end->len, slot, slot ? strlen(slot) : 0, &part));
    *data = answer < 0 ? NULL : end->data + part.offset;
    *len = part.length;
    return answer;
}

int monohull_cancel_child(const char *id) {
    return answered(monohull_wasi_cancel_child(id, strlen(id)));
}

/* -- Effects ------------------------------------------------------------------------------------------------------------- */

int monohull_perform(const char *effect, const void *request, size_t len, monohull_buffer *reply) {
    struct monohull_slot slot;
    return fetched(monohull_wasi_perform(effect, strlen(effect), request, len, &slot), &slot, reply);
}

/* -- Continuations as values --------------------------------------------------------------------------------------------- */

/* A handle counts from 0. No token is 0. */
static uint32_t handle_of(const monohull_continuation *continuation) {
    return (uint32_t)continuation->token - 1;
}

int monohull_call_cc(const char *slot, monohull_buffer *value) {
    uint64_t number;
    struct monohull_slot came;
    *value = none;
    int handle = answered(monohull_wasi_continuation(&number));
    if (handle < 0) return handle;
    int done = answered(monohull_wasi_continuation_publish(handle, slot, strlen(slot)));
    if (done < 0) {
        monohull_wasi_continuation_free(handle, 0);
        return done;
    }
    return fetched(monohull_wasi_continuation_wait(number, &came), &came, value);
}

int monohull_resume(const char *slot, const void *value, size_t len) {
    monohull_continuation continuation;
    int done = monohull_take_continuation(slot, &continuation);
    if (done < 0) return done;
    done = monohull_resume_continuation(&continuation, value, len);
    if (done < 0) monohull_wasi_continuation_free(handle_of(&continuation), 0);
    return done;
}

static int take_continuation(const char *slot, int wait, monohull_continuation *continuation) {
    int handle = answered(monohull_wasi_continuation_take(slot, strlen(slot), wait));
    continuation->token = handle < 0 ? 0 : (uint64_t)handle + 1;
    return handle < 0 ? handle : 0;
}

int monohull_take_continuation(const char *slot, monohull_continuation *continuation) {
    return take_continuation(slot, 1, continuation);
}

int monohull_try_take_continuation(const char *slot, monohull_continuation *continuation) {
    return take_continuation(slot, 0, continuation);
}

int monohull_publish_continuation(const char *slot, monohull_continuation *continuation) {
    int done = answered(monohull_wasi_continuation_publish(handle_of(continuation), slot, strlen(slot)));
    if (done == 0) continuation->token = 0;
    return done;
}

int monohull_resume_continuation(monohull_continuation *continuation, const void *value, size_t len) {
    int done = answered(monohull_wasi_continuation_resume(handle_of(continuation), value, len));
    if (done == 0) continuation->token = 0;
    return done;
}

void monohull_drop_continuation(monohull_continuation *continuation, int at_once) {
    if (continuation->token) monohull_wasi_continuation_free(handle_of(continuation), at_once);
    continuation->token = 0;
}

/* -- Save points, copies, going back ------------------------------------------------------------------------------------- */

int monohull_checkpoint(const char *label) {
    return answered(monohull_wasi_checkpoint(label, strlen(label)));
}

int monohull_fork(uint32_t copies) {
    struct monohull_slot ids;
    int number = answered(monohull_wasi_fork(copies, &ids));
    if (number >= 0) monohull_slot_free(ids.handle);
    return number;
}

int monohull_capture(uint64_t *checkpoint, unsigned char *value, size_t *len) {
    uint32_t length = *len;
    int answer = answered(monohull_wasi_capture(checkpoint, value, &length));
    *len = answer < 0 ? 0 : length;
    return answer > 0 ? 1 : answer;
}

int monohull_rewind(uint64_t checkpoint, const unsigned char *value, size_t len) {
    return answered(monohull_wasi_rewind(checkpoint, value, len));
}

int monohull_forget(uint64_t checkpoint) {
    return answered(monohull_wasi_forget(checkpoint));
}

/* -- Connections --------------------------------------------------------------------------------------------------------- */

/* Milliseconds of the monotonic clock. */
static int64_t milliseconds_now(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The addresses of a host that is written in numbers or is a name: 0, or an error number. */
static int addresses_of(const char *host, struct monohull_socket_address *addresses, uint32_t *count) {
    *addresses = (struct monohull_socket_address){0};
    if (inet_pton(AF_INET, host, addresses->address) == 1)
        addresses->family = 4;
    else if (inet_pton(AF_INET6, host, addresses->address) == 1)
        addresses->family = 6;
    else
        return monohull_lookup(host, strlen(host), addresses, MONOHULL_LOOKUP_MAX, count);
    *count = 1;
    return 0;
}

/* Waits until a connection is made: 0, or an error number. `end` is a time of the clock, or less than 0. */
static int wait_for(int descriptor, int64_t end) {
    struct pollfd polled = {.fd = descriptor, .events = POLLOUT};
    for (;;) {
        int64_t left = end < 0 ? -1 : end - milliseconds_now();
        if (end >= 0 && left < 0) left = 0;
        int ready = poll(&polled, 1, left > INT_MAX ? INT_MAX : (int)left);
        if (ready < 0) return errno;
        if (ready > 0) return monohull_socket_failure(descriptor);
        if (end >= 0 && left <= INT_MAX) return ETIMEDOUT;
    }
}

/* A descriptor in `connected`: 0, or an error number. */
static int connect_to(const struct monohull_socket_address *address, int64_t end, int *connected) {
    int error = monohull_socket_connect(address, connected);
    if (error) return error;
    error = wait_for(*connected, end);
    if (error == 0 && fcntl(*connected, F_SETFL, 0) < 0) error = errno;
    if (error) close(*connected);
    return error;
}

int monohull_connect(const char *host, unsigned port, int milliseconds) {
    struct monohull_socket_address addresses[MONOHULL_LOOKUP_MAX];
    uint32_t count = 0;
    explanation[0] = 0;
    int error = addresses_of(host, addresses, &count), connected;
    int64_t end = milliseconds < 0 ? -1 : milliseconds_now() + milliseconds;
    if (error == 0 && count == 0) error = ENOENT;
    for (uint32_t at = 0; at < count && error == 0; at++) {
        addresses[at].port = port;
        error = connect_to(&addresses[at], end, &connected);
        if (error == 0) return connected;
        /* Another address, if there is one and time for it. */
        if (at + 1 < count && (end < 0 || milliseconds_now() < end)) error = 0;
    }
    errno = error;
    return -1;
}

/* -- The instance -------------------------------------------------------------------------------------------------------- */

uint64_t monohull_instance_index(void) {
    return imported_index();
}

uint64_t monohull_instance_count(void) {
    return imported_count();
}

uint64_t monohull_attempt(void) {
    return imported_attempt();
}

int monohull_ready(void) {
    return imported_ready();
}

void monohull_fail(int is_permanent, const char *why) {
    monohull_wasi_fail(is_permanent, why, strlen(why));
}

size_t monohull_invocation_id(char *text, size_t room) {
    return copy_text(MONOHULL_INVOCATION, text, room);
}

size_t monohull_step_name(char *text, size_t room) {
    return copy_text(MONOHULL_STEP, text, room);
}

uint64_t monohull_generation(void) {
    return (uint64_t)monohull_wasi_number(MONOHULL_GENERATION);
}
