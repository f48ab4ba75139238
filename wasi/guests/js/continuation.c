/* Functions of the module `monohull` about continuations as values, over `function/include/monohull.h`.
 *
 * An object of the class `Continuation` owns one until it is handed on, used or discarded. If the object goes, the continuation is dropped.
 */
#include "continuation.h"
#include "invocation.h"
#include "monohull.h"
#include "random.h"
#include "values.h"
#include <stdlib.h>

static JSClassID class_id;

static void finalize(JSRuntime *runtime, JSValue object) {
    monohull_continuation *owned = JS_GetOpaque(object, class_id);
    if (owned) monohull_drop_continuation(owned, 0);
    free(owned);
}

static const JSClassDef class = { "Continuation", .finalizer = finalize };

/* What an object owns; NULL with an exception if it is of another class, or does not own one any more. */
static monohull_continuation *owned_by(JSContext *ctx, JSValueConst this) {
    monohull_continuation *owned = JS_GetOpaque2(ctx, this, class_id);
    if (owned && owned->token == 0) {
        throw_error(ctx, "the continuation has been used, handed on or discarded", -MONOHULL_GIVEN_AWAY);
        return NULL;
    }
    return owned;
}

static JSValue js_publish(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    monohull_continuation *owned = owned_by(ctx, this);
    const char *slot = owned ? get_name(ctx, argv[0]) : NULL;
    JSValue result = slot ? undefined_or_error(ctx, monohull_publish_continuation(slot, owned)) : JS_EXCEPTION;
    JS_FreeCString(ctx, slot);
    return result;
}

static JSValue js_resume(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    struct bytes value;
    monohull_continuation *owned = owned_by(ctx, this);
    if (!owned || get_bytes(ctx, argv[0], &value) < 0)
        return JS_EXCEPTION;
    JSValue result = undefined_or_error(ctx, monohull_resume_continuation(owned, value.at, value.length));
    put_bytes(ctx, &value);
    return result;
}

static JSValue js_discard(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    monohull_continuation *owned = owned_by(ctx, this);
    if (!owned)
        return JS_EXCEPTION;
    monohull_drop_continuation(owned, 1);
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry methods[] = {
    JS_CFUNC_DEF("publish", 1, js_publish),
    JS_CFUNC_DEF("resume", 1, js_resume),
    JS_CFUNC_DEF("discard", 0, js_discard),
};

/* An object for a continuation; the class with the first of them. */
static JSValue object_for(JSContext *ctx, const monohull_continuation *taken) {
    if (class_id == 0) {
        JS_NewClassID(&class_id);
        if (JS_NewClass(JS_GetRuntime(ctx), class_id, &class) < 0)
            return JS_ThrowOutOfMemory(ctx);
        JSValue prototype = JS_NewObject(ctx);
        JS_SetPropertyFunctionList(ctx, prototype, methods, sizeof methods / sizeof *methods);
        JS_SetClassProto(ctx, class_id, prototype);
    }
    monohull_continuation *owned = malloc(sizeof *owned);
    JSValue object = owned ? JS_NewObjectClass(ctx, class_id) : JS_ThrowOutOfMemory(ctx);
    if (JS_IsException(object)) {
        free(owned);
        return object;
    }
    *owned = *taken;
    JS_SetOpaque(object, owned);
    return object;
}

static JSValue js_take(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *slot = get_name(ctx, argv[0]);
    if (!slot)
        return JS_EXCEPTION;
    monohull_continuation taken;
    int done = monohull_take_continuation(slot, &taken);
    forget_random();
    JS_FreeCString(ctx, slot);
    if (done < 0)
        return refused(ctx, done);
    JSValue object = object_for(ctx, &taken);
    if (JS_IsException(object))
        monohull_drop_continuation(&taken, 0);
    return object;
}

static JSValue js_call_cc(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *slot = get_name(ctx, argv[0]);
    if (!slot)
        return JS_EXCEPTION;
    monohull_buffer value;
    int done = monohull_call_cc(slot, &value);
    forget_random();
    JS_FreeCString(ctx, slot);
    return done < 0 ? refused(ctx, done) : bytes_value(ctx, value.data, value.len);
}

const JSCFunctionListEntry continuation_functions[] = {
    JS_CFUNC_DEF("callCc", 1, js_call_cc),
    JS_CFUNC_DEF("takeContinuation", 1, js_take),
};
const int continuation_function_count = sizeof continuation_functions / sizeof *continuation_functions;
