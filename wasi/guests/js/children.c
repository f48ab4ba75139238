/* Functions of the module `monohull` about invocations of other workflows, over `function/include/monohull.h`. */
#include "children.h"
#include "invocation.h"
#include "monohull.h"
#include "random.h"
#include "values.h"

/* `start(workflow, id, value)` and `startDetached`. */
static JSValue js_start(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int detached) {
    JSValue result = JS_EXCEPTION;
    struct bytes bytes;
    const char *workflow = get_name(ctx, argv[0]), *id = workflow ? get_name(ctx, argv[1]) : NULL;
    if (id && get_bytes(ctx, argv[2], &bytes) == 0) {
        result = undefined_or_error(ctx, monohull_start_child(workflow, id, bytes.at, bytes.length, detached));
        put_bytes(ctx, &bytes);
    }
    JS_FreeCString(ctx, id);
    JS_FreeCString(ctx, workflow);
    return result;
}

/* What an output slot has of what is told, as a text if it is the message; null if there is nothing. */
static JSValue output(JSContext *ctx, const monohull_buffer *told, const char *slot) {
    const uint8_t *data;
    size_t length;
    if (monohull_child_output(told, slot, &data, &length) < 0)
        return JS_NULL;
    if (!slot)
        return JS_NewStringLen(ctx, (const char *)data, length);
    JSValue buffer = JS_NewArrayBufferCopy(ctx, data, length);
    if (JS_IsException(buffer))
        return buffer;
    JSValue arguments[] = { buffer, JS_UNDEFINED, JS_UNDEFINED };
    JSValue array = JS_NewTypedArray(ctx, 3, arguments, JS_TYPED_ARRAY_UINT8);
    JS_FreeValue(ctx, buffer);
    return array;
}

/* The method `output(slot)` of what `join` gives, which has what is told as its property `told`. */
static JSValue js_output(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    struct bytes told;
    JSValue property = JS_GetPropertyStr(ctx, this, "told"), result = JS_EXCEPTION;
    const char *slot = get_name(ctx, argv[0]);
    if (slot && get_bytes(ctx, property, &told) == 0) {
        monohull_buffer end = { (unsigned char *)told.at, told.length, told.length };
        result = output(ctx, &end, slot);
        put_bytes(ctx, &told);
    }
    JS_FreeCString(ctx, slot);
    JS_FreeValue(ctx, property);
    return result;
}

static JSValue js_join(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    static const char *const endings[] = { "completed", "failed", "cancelled", "refused", "too large" };
    uint64_t timeout;
    monohull_buffer told;
    if (get_time(ctx, argv[1], &timeout) < 0)
        return JS_EXCEPTION;
    const char *id = get_name(ctx, argv[0]);
    if (!id)
        return JS_EXCEPTION;
    int ending = monohull_join(id, timeout, &told);
    forget_random();
    JS_FreeCString(ctx, id);
    if (ending == MONOHULL_TIMED_OUT)
        return JS_NULL;
    if (ending < 0)
        return refused(ctx, ending);
    JSValue end = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, end, "ending", JS_NewString(ctx, endings[ending]));
    JS_SetPropertyStr(ctx, end, "message", output(ctx, &told, NULL));
    JS_SetPropertyStr(ctx, end, "output", JS_NewCFunction(ctx, js_output, "output", 1));
    /* The memory becomes that of the array. */
    JS_SetPropertyStr(ctx, end, "told", bytes_value(ctx, told.data, told.len));
    return end;
}

static JSValue js_cancel(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *id = get_name(ctx, argv[0]);
    JSValue result = id ? undefined_or_error(ctx, monohull_cancel_child(id)) : JS_EXCEPTION;
    JS_FreeCString(ctx, id);
    return result;
}

const JSCFunctionListEntry children_functions[] = {
    JS_CFUNC_MAGIC_DEF("start", 3, js_start, 0),
    JS_CFUNC_MAGIC_DEF("startDetached", 3, js_start, 1),
    JS_CFUNC_DEF("join", 2, js_join),
    JS_CFUNC_DEF("cancel", 1, js_cancel),
};
const int children_function_count = sizeof children_functions / sizeof *children_functions;
