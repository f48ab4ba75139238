/* Calls of `monohull.h` from a program for WASI, for tests: `--act=` says which, and each prints what has become of it. */
#include <monohull.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DAY (24 * 60 * 60 * 1000000000ull)
#define HEAP (1 << 20)

static const char *argument(int count, char **arguments, const char *name) {
    size_t length = strlen(name);
    for (int i = 1; i < count; i++)
        if (strncmp(arguments[i], name, length) == 0) return arguments[i] + length;
    return "";
}

/* What is no error; an error is the program's end. */
static int must(int answer, const char *what) {
    if (answer >= 0) return answer;
    char why[256];
    monohull_last_error(why, sizeof why);
    printf("%s: %d: %s\n", what, answer, why);
    exit(1);
}

static void show(const char *what, monohull_buffer *buffer) {
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)buffer->len, (const char *)buffer->data);
    printf("%s: %s\n", what, text);
    must(monohull_state(what, text), "state");
    monohull_discard(buffer);
}

/* -- A month ------------------------------------------------------------------------------------------------------------- */

static unsigned kept_data = 1;

static unsigned sum(const unsigned *numbers, size_t count) {
    unsigned sum = 0;
    while (count--) sum += numbers[count];
    return sum;
}

/* The memory ends before this. */
__attribute__((noinline)) static int behind_the_memory(volatile const int *address) {
    return *address;
}

static void sleeps(int traps) {
    unsigned kept_stack[64];
    unsigned *kept_heap = malloc(HEAP * sizeof *kept_heap);
    for (unsigned i = 0; i < HEAP; i++) kept_heap[i] = i * 2654435761u;
    for (unsigned i = 0; i < 64; i++) kept_stack[i] = i * 40503u;
    kept_data = 77;
    unsigned before = sum(kept_heap, HEAP) + sum(kept_stack, 64);
    FILE *file = fopen("/work/note", "w+");
    fputs("written before", file);
    struct timespec begun, now, month = { 30 * 24 * 60 * 60, 0 };
    clock_gettime(CLOCK_REALTIME, &begun);
    must(monohull_state("where", "asleep"), "state");
    printf("sleeps\n");
    nanosleep(&month, NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    char note[32] = "";
    rewind(file);
    fgets(note, sizeof note, file);
    int same = sum(kept_heap, HEAP) + sum(kept_stack, 64) == before && kept_data == 77;
    printf("memory %s, file: %s, a month later: %d\n", same ? "as it was" : "changed", note, now.tv_sec - begun.tv_sec >= month.tv_sec);
    /* Memory of after the sleep, too. */
    char *more = malloc(3 << 20);
    memset(more, 7, 3 << 20);
    printf("grown: %d\n", more[(3 << 20) - 1]);
    if (traps) printf("%d\n", behind_the_memory((volatile const int *)-64));
}

/* -- Events -------------------------------------------------------------------------------------------------------------- */

static void waits(void) {
    monohull_buffer event;
    printf("waits\n");
    int got = monohull_event("paid", 7 * DAY, &event);
    if (got == MONOHULL_TIMED_OUT)
        printf("late\n");
    else
        must(got, "event"), show("paid", &event);
    int which = must(monohull_first_of("shipped\ncancelled", UINT64_MAX, &event), "first_of");
    show(which == 1 ? "cancelled" : "shipped", &event);
    int is_there_none = monohull_event("paid", 0, &event) == MONOHULL_TIMED_OUT && event.data == NULL;
    printf("another: %d\n", is_there_none);
    must(monohull_state("another", is_there_none ? "1" : "0"), "state");
}

/* -- Callbacks ----------------------------------------------------------------------------------------------------------- */

/* An answer after a heartbeat, a rejection, one that does not come, a client that is silent. */
static void answers(void) {
    static const char *const endings[] = { "completed", "rejected", "timed out", "silent" };
    struct { char token[MONOHULL_TOKEN_ROOM]; uint64_t timeout, heartbeat; } waits[] = {
        { "", UINT64_MAX, DAY }, { "", DAY, DAY }, { "", 0, UINT64_MAX }, { "", DAY, 0 },
    };
    char text[256];
    monohull_buffer content;
    for (int i = 0; i < 4; i++) must(monohull_callback(waits[i].token), "callback");
    snprintf(text, sizeof text, "%s %s", waits[0].token, waits[1].token);
    must(monohull_state("tokens", text), "state");
    for (int i = 0; i < 4; i++) {
        int ending = must(monohull_answer(waits[i].token, waits[i].timeout, waits[i].heartbeat, &content), "answer");
        printf("%s %.*s\n", endings[ending], (int)content.len, (const char *)content.data);
        monohull_discard(&content);
    }
    size_t length = monohull_invocation_id(text, 3);
    if (length != 3 || strcmp(text, "on") != 0) printf("%zu bytes of the id, cut: %s\n", length, text);
    monohull_invocation_id(text, sizeof text);
    printf("of %s, %d for other tokens\n", text, monohull_answer("paid", 0, 0, &content));
}

static void refusals(void) {
    char why[256];
    monohull_buffer buffer;
    struct { const char *what; int answer; } calls[] = {
        { "event", monohull_event("", 0, &buffer) },
        { "send", monohull_send("other", "paid", "x", 1) },
        { "start", monohull_start_child("other", "one", NULL, 0, 0) },
        { "perform", monohull_perform("nobody", "x", 1, &buffer) },
        { "fork", monohull_fork(0) },
        { "forget", monohull_forget(17) },
        { "handed over", monohull_handed_over("count", &buffer) },
        { "output", monohull_child_output(&(monohull_buffer){ 0 }, "out", &(const uint8_t *){ 0 }, &(size_t){ 0 }) },
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) printf("%s %d\n", calls[i].what, calls[i].answer);
    monohull_event("", 0, &buffer);
    monohull_last_error(why, sizeof why);
    printf("%s\n", why);
}

/* -- Save points and copies ---------------------------------------------------------------------------------------------- */

static void saves(void) {
    printf("before\n");
    int came = must(monohull_checkpoint("here"), "checkpoint");
    printf(came ? "came back\n" : "went on\n");
    struct timespec day = { 24 * 60 * 60, 0 };
    nanosleep(&day, NULL);
    printf("done\n");
}

static void forks(void) {
    int number = must(monohull_fork(2), "fork");
    printf("copy %d\n", number);
}

/* -- Going back ---------------------------------------------------------------------------------------------------------- */

static uint64_t checkpoints[2];
static unsigned char next[2];
static int choices;

/* One of 1 to 9, and after a failure the next one. */
static int choose(void) {
    uint64_t checkpoint;
    unsigned char value = 1;
    size_t length = 1;
    if (must(monohull_capture(&checkpoint, &value, &length), "capture") == 0) value = 1;
    if (value < 9) checkpoints[choices] = checkpoint, next[choices] = value + 1, choices++;
    /* Memory that is there no more after going back. */
    memset(malloc(1 << 20), 1, 1 << 20);
    return value;
}

static void goes_back(int traps) {
    int a = choose(), b = choose();
    if (a * b != 42 && choices > 0) {
        choices--;
        must(monohull_rewind(checkpoints[choices], &next[choices], 1), "rewind");
    }
    printf("%d times %d is 42\n", a, b);
    printf("unknown: %d\n", monohull_rewind(checkpoints[0] + 1000, NULL, 0) == MONOHULL_NOT_FOUND);
    if (traps) printf("%d\n", behind_the_memory((volatile const int *)-64));
}

/* -- Effects ------------------------------------------------------------------------------------------------------------- */

static void asks(void) {
    monohull_buffer reply;
    int failed = must(monohull_perform("blob", "logo", 4, &reply), "perform");
    show(failed ? "failed" : "reply", &reply);
    failed = must(monohull_perform("blob", "", 0, &reply), "perform");
    show(failed ? "failed" : "reply", &reply);
}

static int handles(void) {
    monohull_buffer request, reply;
    must(monohull_take("request", &request), "take");
    if (request.len == 0) {
        fprintf(stderr, "there is no name\n");
        return 3;
    }
    must(monohull_make(request.len + 1, &reply), "make");
    reply.data[0] = '<';
    memcpy(reply.data + 1, request.data, request.len);
    reply.len = request.len + 1;
    must(monohull_publish("reply", &reply), "publish");
    monohull_discard(&request);
    return 0;
}

/* -- Children ------------------------------------------------------------------------------------------------------------ */

static void parent(void) {
    monohull_buffer end;
    const uint8_t *data;
    size_t length;
    must(monohull_start_child("child", "good", "17", 2, 0), "start");
    must(monohull_start_child("child", "bad", "", 0, 0), "start");
    int ending = must(monohull_join("good", UINT64_MAX, &end), "join");
    must(monohull_child_output(&end, "out", &data, &length), "output");
    printf("good: %d, %.*s\n", ending, (int)length, (const char *)data);
    printf("none: %d\n", monohull_child_output(&end, "other", &data, &length) == MONOHULL_NOT_FOUND && data == NULL);
    monohull_discard(&end);
    ending = must(monohull_join("bad", UINT64_MAX, &end), "join");
    must(monohull_child_output(&end, NULL, &data, &length), "message");
    printf("bad: %d, %d\n", ending, length > 0);
    monohull_discard(&end);
}

static int child(void) {
    monohull_buffer in, out;
    must(monohull_take("in", &in), "take");
    if (in.len == 0) return 3;
    must(monohull_make(in.len + 1, &out), "make");
    memcpy(out.data, in.data, in.len);
    out.data[in.len] = '!';
    out.len = in.len + 1;
    must(monohull_publish("out", &out), "publish");
    return 0;
}

/* -- A template ---------------------------------------------------------------------------------------------------------- */

static void is_ready(void) {
    unsigned *table = malloc(HEAP * sizeof *table);
    for (unsigned i = 0; i < HEAP; i++) table[i] = i * 2654435761u;
    int here = monohull_ready();
    monohull_buffer in, out;
    must(monohull_take("in", &in), "take");
    must(monohull_make(256, &out), "make");
    out.len = (size_t)snprintf((char *)out.data, 256, "%s %u %.*s", here ? "template" : "main", sum(table, HEAP), (int)in.len, (const char *)in.data);
    int traps = in.len > 0 && in.data[0] == '!';
    must(monohull_publish("out", &out), "publish");
    if (traps) printf("%d\n", behind_the_memory((volatile const int *)-64));
}

/* -- Continuations as values --------------------------------------------------------------------------------------------- */

/* Fills a slot with what has become of a call: the value or "done", or the number and why. */
static void told(const char *slot, int answer, monohull_buffer *value) {
    char why[256];
    monohull_buffer text;
    if (answer == 0 && value && value->len <= 100) {
        must(monohull_publish(slot, value), "publish");
        return;
    }
    must(monohull_make(512, &text), "make");
    if (answer < 0) monohull_last_error(why, sizeof why);
    text.len = answer < 0 ? sprintf((char *)text.data, "%d: %s", answer, why)
               : value    ? sprintf((char *)text.data, "%zu bytes, the first is %c", value->len, value->data[0])
                          : sprintf((char *)text.data, "done");
    must(monohull_publish(slot, &text), "publish");
}

static void continues(const char *how, const char *value, long milliseconds) {
    monohull_buffer came;
    monohull_continuation taken;
    struct timespec nap = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
    if (strcmp(how, "wait") == 0) {
        int answer = monohull_call_cc("next", &came);
        told("result", answer, &came);
    } else if (strcmp(how, "resume-further") == 0) {
        told("said", monohull_resume("further", value, strlen(value)), NULL);
    } else {
        must(monohull_take_continuation("next", &taken), "take");
        monohull_continuation copy = taken;
        if (strcmp(how, "resume") == 0) {
            nanosleep(&nap, NULL);
            told("said", monohull_resume_continuation(&taken, value, strlen(value)), NULL);
        } else if (strcmp(how, "twice") == 0) {
            must(monohull_resume_continuation(&taken, value, strlen(value)), "resume");
            told("said", taken.token ? 0 : monohull_resume_continuation(&copy, value, strlen(value)), NULL);
        } else if (strcmp(how, "pass") == 0) {
            told("passed", monohull_publish_continuation("further", &taken), NULL);
        } else if (strcmp(how, "pass-twice") == 0) {
            /* The slot is filled: it is still here, and is used. */
            must(monohull_make(1, &came), "make"), must(monohull_publish("further", &came), "publish");
            told("passed", monohull_publish_continuation("further", &taken), NULL);
            must(monohull_resume_continuation(&taken, value, strlen(value)), "resume");
        } else if (strcmp(how, "fail-first") == 0) {
            if (monohull_attempt() == 1) exit(3);
            told("said", monohull_resume_continuation(&taken, value, strlen(value)), NULL);
        } else if (strcmp(how, "discard") == 0) {
            /* What waits has its error before this goes on. */
            monohull_drop_continuation(&taken, 1);
            must(monohull_take("result", &came), "take");
            must(monohull_publish("said", &came), "publish");
        } else {
            monohull_drop_continuation(&taken, 0);
        }
    }
}

/* Fails so many times. */
static int charges(const char *key, void *context) {
    int *left = context;
    printf("charge with %s\n", key);
    return (*left)-- > 0 ? 7 : 0;
}

/* Steps with attempts and without, a key alone, and the address of a callback. */
static void steps(void) {
    char key[MONOHULL_STEP_KEY_ROOM], token[MONOHULL_TOKEN_ROOM], id[64], url[256], other[256];
    monohull_retry retry = { 3, 0, 0 };
    int left = 2;
    printf("came %d\n", monohull_step("charge", &retry, charges, &left));
    left = 9;
    printf("came %d\n", monohull_step("charge", NULL, charges, &left));
    must(monohull_step_key("charge", key), "step_key");
    printf("next %s\n", key);
    must(monohull_callback(token), "callback");
    monohull_invocation_id(id, sizeof id);
    snprintf(other, sizeof other, "/callbacks/%s/%s", id, token);
    size_t length = monohull_callback_url(token, url, sizeof url);
    printf("%s\n", length == strlen(other) && strcmp(url, other) == 0 ? "a path" : url);
    printf("%d without a name\n", monohull_step_key("", key));
}

int main(int count, char **arguments) {
    const char *act = argument(count, arguments, "--act=");
    int traps = *argument(count, arguments, "--traps=") != 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(act, "sleep") == 0) sleeps(traps);
    if (strcmp(act, "wait") == 0) waits();
    if (strcmp(act, "fail") == 0) monohull_fail(*argument(count, arguments, "--passes=") == 0, "there is no such ship");
    if (strcmp(act, "answers") == 0) answers();
    if (strcmp(act, "steps") == 0) steps();
    if (strcmp(act, "refusals") == 0) refusals();
    if (strcmp(act, "save") == 0) saves();
    if (strcmp(act, "fork") == 0) forks();
    if (strcmp(act, "back") == 0) goes_back(traps);
    if (strcmp(act, "ask") == 0) asks();
    if (strcmp(act, "handle") == 0) return handles();
    if (strcmp(act, "parent") == 0) parent();
    if (strcmp(act, "child") == 0) return child();
    if (strcmp(act, "ready") == 0) is_ready();
    if (strcmp(act, "continue") == 0)
        continues(argument(count, arguments, "--how="), argument(count, arguments, "--value="), atol(argument(count, arguments, "--milliseconds=")));
    return 0;
}
