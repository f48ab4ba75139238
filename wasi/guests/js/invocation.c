/* Functions of the module `monohull` about the invocation, over `function/include/monohull.h`. Each waits as a whole: while a program is in one, its timers and
 * promises do not go on. */
#include "invocation.h"
#include "monohull.h"
#include "random.h"
#include "values.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

JSValue refused(JSContext *ctx, int number) {
    char text[512];
    if (monohull_last_error(text, sizeof text) == 0)
        strcpy(text, number == MONOHULL_OUT_OF_MEMORY ? "out of memory" : "the call is refused");
    return throw_error(ctx, text, -number);
}

JSValue undefined_or_error(JSContext *ctx, int done) {
    return done < 0 ? refused(ctx, done) : JS_UNDEFINED;
}

/* The buffer's memory becomes the value's. */
static JSValue buffer_value(JSContext *ctx, monohull_buffer *buffer) {
    return bytes_value(ctx, buffer->data, buffer->len);
}

int get_time(JSContext *ctx, JSValueConst value, uint64_t *time) {
    double seconds;
    *time = UINT64_MAX;
    if (JS_IsUndefined(value))
        return 0;
    if (JS_ToFloat64(ctx, &seconds, value) < 0)
        return -1;
    if (isnan(seconds) || seconds < 0)
        seconds = 0;
    if (seconds < 1.8e10)
        *time = (uint64_t)(seconds * 1e9);
    return 0;
}

/* A value as so many names of events with line breaks between them. NULL with an exception, also if one of them would be cut, or be several. */
static const char *get_names(JSContext *ctx, JSValueConst value, uint32_t count) {
    size_t length, breaks = 0;
    const char *names = get_text(ctx, value, &length);
    if (!names)
        return NULL;
    for (size_t i = 0; i < length; i++)
        breaks += names[i] == '\n';
    if (strlen(names) == length && (breaks == 0 || breaks < count))
        return names;
    JS_FreeCString(ctx, names);
    throw_error(ctx, "the name of an event has no control characters", -MONOHULL_INVALID);
    return NULL;
}

static JSValue js_event(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    uint64_t timeout;
    const char *name = get_names(ctx, argv[0], 1);
    if (!name || get_time(ctx, argv[1], &timeout) < 0) {
        JS_FreeCString(ctx, name);
        return JS_EXCEPTION;
    }
    monohull_buffer event;
    int done = monohull_event(name, timeout, &event);
    forget_random();
    JS_FreeCString(ctx, name);
    if (done == MONOHULL_TIMED_OUT)
        return JS_NULL;
    return done < 0 ? refused(ctx, done) : buffer_value(ctx, &event);
}

/* `firstOf(names, seconds)` */
static JSValue js_first_of(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    uint64_t timeout;
    uint32_t count;
    JSValue length = JS_GetPropertyStr(ctx, argv[0], "length");
    int done = JS_ToUint32(ctx, &count, length);
    JS_FreeValue(ctx, length);
    if (done < 0 || get_time(ctx, argv[1], &timeout) < 0)
        return JS_EXCEPTION;
    JSAtom join = JS_NewAtom(ctx, "join");
    JSValue separator = JS_NewString(ctx, "\n"), joined = JS_Invoke(ctx, argv[0], join, 1, &separator);
    JS_FreeAtom(ctx, join);
    JS_FreeValue(ctx, separator);
    const char *names = JS_IsException(joined) ? NULL : get_names(ctx, joined, count);
    JS_FreeValue(ctx, joined);
    if (!names)
        return JS_EXCEPTION;
    monohull_buffer content;
    int which = monohull_first_of(names, timeout, &content);
    forget_random();
    JSValue result = JS_NULL;
    if (which >= 0) {
        const char *name = names;
        while (which-- > 0)
            name = strchr(name, '\n') + 1;
        result = JS_NewObject(ctx);
        JS_SetPropertyStr(ctx, result, "name", JS_NewStringLen(ctx, name, strcspn(name, "\n")));
        JS_SetPropertyStr(ctx, result, "content", buffer_value(ctx, &content));
    } else if (which != MONOHULL_TIMED_OUT)
        result = refused(ctx, which);
    JS_FreeCString(ctx, names);
    return result;
}

static JSValue js_sleep(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    uint64_t time;
    if (get_time(ctx, argv[0], &time) < 0)
        return JS_EXCEPTION;
    if (time == UINT64_MAX)
        return JS_ThrowTypeError(ctx, "a sleep has an end");
    struct timespec left = { (time_t)(time / 1000000000), (long)(time % 1000000000) };
    nanosleep(&left, NULL);
    forget_random();
    return JS_UNDEFINED;
}

/* `send(invocation, name, value)` and `perform(effect, value)`. */
enum { SEND, PERFORM };

static JSValue js_give(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int kind) {
    JSValue result = JS_EXCEPTION;
    struct bytes bytes;
    const char *first = get_name(ctx, argv[0]);
    const char *name = kind == SEND && first ? get_name(ctx, argv[1]) : NULL;
    if (first && (name || kind == PERFORM) && get_bytes(ctx, argv[kind == SEND ? 2 : 1], &bytes) == 0) {
        if (kind == SEND)
            result = undefined_or_error(ctx, monohull_send(first, name, bytes.at, bytes.length));
        else {
            monohull_buffer reply;
            int done = monohull_perform(first, bytes.at, bytes.length, &reply);
            forget_random();
            if (done == 1) {
                char *report = strndup((const char *)reply.data, reply.len);
                monohull_discard(&reply);
                result = throw_error(ctx, report ? report : "the handler has failed", 5);
                free(report);
            } else
                result = done < 0 ? refused(ctx, done) : buffer_value(ctx, &reply);
        }
        put_bytes(ctx, &bytes);
    }
    JS_FreeCString(ctx, name);
    JS_FreeCString(ctx, first);
    return result;
}

static JSValue js_state(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *name = get_name(ctx, argv[0]), *text = name ? get_name(ctx, argv[1]) : NULL;
    JSValue result = text ? undefined_or_error(ctx, monohull_state(name, text)) : JS_EXCEPTION;
    JS_FreeCString(ctx, text);
    JS_FreeCString(ctx, name);
    return result;
}

static JSValue js_handed_over(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *name = get_name(ctx, argv[0]);
    if (!name)
        return JS_EXCEPTION;
    monohull_buffer text;
    int done = monohull_handed_over(name, &text);
    JS_FreeCString(ctx, name);
    if (done == MONOHULL_NOT_FOUND)
        return JS_NULL;
    return done < 0 ? refused(ctx, done) : text_value(ctx, text.data, text.len);
}

/* The method `answer(timeout, heartbeat)` of what `callback` gives, in seconds: how it has ended, and what the client has sent. */
static JSValue js_answer(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    static const char *const endings[] = { "completed", "rejected", "timed out", "silent" };
    uint64_t timeout, heartbeat;
    if (get_time(ctx, argv[0], &timeout) < 0 || get_time(ctx, argv[1], &heartbeat) < 0)
        return JS_EXCEPTION;
    JSValue property = JS_GetPropertyStr(ctx, this, "token");
    const char *token = get_name(ctx, property);
    JS_FreeValue(ctx, property);
    if (!token)
        return JS_EXCEPTION;
    monohull_buffer content;
    int ending = monohull_answer(token, timeout, heartbeat, &content);
    forget_random();
    JS_FreeCString(ctx, token);
    if (ending < 0)
        return refused(ctx, ending);
    /* Where nothing was sent there is no buffer, and an array needs one. */
    if (!content.data && monohull_make(0, &content) < 0)
        return refused(ctx, MONOHULL_OUT_OF_MEMORY);
    JSValue answer = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, answer, "ending", JS_NewString(ctx, endings[ending]));
    JS_SetPropertyStr(ctx, answer, "content", buffer_value(ctx, &content));
    return answer;
}

static JSValue js_callback(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    char token[MONOHULL_TOKEN_ROOM], url[1024];
    int done = monohull_callback(token);
    if (done < 0)
        return refused(ctx, done);
    JSValue callback = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, callback, "token", JS_NewString(ctx, token));
    monohull_callback_url(token, url, sizeof url);
    JS_SetPropertyStr(ctx, callback, "url", JS_NewString(ctx, url));
    JS_SetPropertyStr(ctx, callback, "answer", JS_NewCFunction(ctx, js_answer, "answer", 2));
    return callback;
}

/* What a step does: the function is called with the key. */
struct act {
    JSContext *ctx;
    JSValueConst function;
    JSValue result;
};

static int act(const char *key, void *context) {
    struct act *act = context;
    JSContext *ctx = act->ctx;
    JSValue text = JS_NewString(ctx, key);
    /* There was a pause before another attempt. */
    forget_random();
    /* The exception of an attempt before this one. */
    JS_FreeValue(ctx, JS_GetException(ctx));
    act->result = JS_IsException(text) ? JS_EXCEPTION : JS_Call(ctx, act->function, JS_UNDEFINED, 1, &text);
    JS_FreeValue(ctx, text);
    /* Nothing goes on while a step waits, so whether a promise is kept would be known too late. */
    if (!JS_IsException(act->result) && (int)JS_PromiseState(ctx, act->result) >= 0) {
        JS_FreeValue(ctx, act->result);
        act->result = JS_ThrowTypeError(ctx, "what a step does is not asynchronous: `stepKey` gives the key alone");
    }
    return JS_IsException(act->result);
}

/* A time in seconds that a step may be given, in nanoseconds: 0 if there is none. */
static int get_pause(JSContext *ctx, JSValueConst retry, const char *name, uint64_t *time) {
    JSValue value = JS_IsUndefined(retry) ? JS_UNDEFINED : JS_GetPropertyStr(ctx, retry, name);
    int done = JS_IsException(value) ? -1 : get_time(ctx, value, time);
    if (JS_IsUndefined(value))
        *time = 0;
    JS_FreeValue(ctx, value);
    return done;
}

/* `step(name, act, { attempts, first, longest })` */
static JSValue js_step(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    monohull_retry retry = { 0, 0, 0 };
    struct act what = { ctx, argv[1], JS_UNDEFINED };
    if (!JS_IsFunction(ctx, argv[1]))
        return JS_ThrowTypeError(ctx, "step(name, act): `act` is a function");
    JSValue attempts = JS_IsUndefined(argv[2]) ? JS_UNDEFINED : JS_GetPropertyStr(ctx, argv[2], "attempts");
    int done = JS_IsException(attempts) ? -1 : JS_IsUndefined(attempts) ? 0 : JS_ToUint32(ctx, &retry.attempts, attempts);
    JS_FreeValue(ctx, attempts);
    if (done < 0 || get_pause(ctx, argv[2], "first", &retry.first) < 0 || get_pause(ctx, argv[2], "longest", &retry.longest) < 0)
        return JS_EXCEPTION;
    const char *name = get_name(ctx, argv[0]);
    if (!name)
        return JS_EXCEPTION;
    done = monohull_step(name, &retry, act, &what);
    forget_random();
    JS_FreeCString(ctx, name);
    return done < 0 ? refused(ctx, done) : what.result;
}

static JSValue js_step_key(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    char key[MONOHULL_STEP_KEY_ROOM];
    const char *name = get_name(ctx, argv[0]);
    if (!name)
        return JS_EXCEPTION;
    int done = monohull_step_key(name, key);
    JS_FreeCString(ctx, name);
    return done < 0 ? refused(ctx, done) : JS_NewString(ctx, key);
}

static JSValue js_invocation_id(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    char id[128];
    monohull_invocation_id(id, sizeof id);
    return JS_NewString(ctx, id);
}

static JSValue js_generation(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return JS_NewInt64(ctx, (int64_t)monohull_generation());
}

static JSValue js_checkpoint(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *label = get_name(ctx, argv[0]);
    if (!label)
        return JS_EXCEPTION;
    int came = monohull_checkpoint(label);
    forget_random();
    JS_FreeCString(ctx, label);
    return came < 0 ? refused(ctx, came) : JS_NewBool(ctx, came);
}

static JSValue js_fork(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    uint32_t copies;
    if (JS_ToUint32(ctx, &copies, argv[0]) < 0)
        return JS_EXCEPTION;
    int number = monohull_fork(copies);
    forget_random();
    return number < 0 ? refused(ctx, number) : JS_NewInt32(ctx, number);
}

/* `fail(why, isPermanent)` */
static JSValue js_fail(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *why = JS_ToCString(ctx, argv[0]);
    if (!why)
        return JS_EXCEPTION;
    fflush(NULL);
    monohull_fail(JS_ToBool(ctx, argv[1]) == 1, why);
}

static JSValue js_ready(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    int came = monohull_ready();
    forget_random();
    return JS_NewBool(ctx, came);
}

const JSCFunctionListEntry invocation_functions[] = {
    JS_CFUNC_DEF("event", 2, js_event),
    JS_CFUNC_DEF("firstOf", 2, js_first_of),
    JS_CFUNC_DEF("sleep", 1, js_sleep),
    JS_CFUNC_MAGIC_DEF("send", 3, js_give, SEND),
    JS_CFUNC_MAGIC_DEF("perform", 2, js_give, PERFORM),
    JS_CFUNC_DEF("state", 2, js_state),
    JS_CFUNC_DEF("handedOver", 1, js_handed_over),
    JS_CFUNC_DEF("callback", 0, js_callback),
    JS_CFUNC_DEF("step", 3, js_step),
    JS_CFUNC_DEF("stepKey", 1, js_step_key),
    JS_CFUNC_DEF("invocationId", 0, js_invocation_id),
    JS_CFUNC_DEF("generation", 0, js_generation),
    JS_CFUNC_DEF("checkpoint", 1, js_checkpoint),
    JS_CFUNC_DEF("fork", 1, js_fork),
    JS_CFUNC_DEF("fail", 2, js_fail),
    JS_CFUNC_DEF("ready", 0, js_ready),
};
const int invocation_function_count = sizeof invocation_functions / sizeof *invocation_functions;
