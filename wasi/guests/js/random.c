/* `Math.random` of the host's random bytes, of which some are drawn ahead.
 *
 * Memory that is copied has them too: that of a template, from which many instances start, of a save point, and of an invocation that makes copies of
 * itself. So what was drawn ahead is used up to the next point where there can be a copy, and not behind it. */
#include "random.h"
#include "monohull-wasi.h"
#include <stdint.h>

/* As many as one call of the system gives. */
#define AHEAD 32

static uint64_t drawn[AHEAD];
static unsigned left;

void forget_random(void) {
    left = 0;
}

static JSValue js_random(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    if (left == 0) {
        /* What a program draws before it is ready keeps it from no template. */
        if (monohull_common_random(drawn, sizeof drawn) != 0)
            return JS_ThrowInternalError(ctx, "there are no random numbers");
        left = AHEAD;
    }
    /* As many bits as a number between 0 and 1 has, whichever it is. */
    return JS_NewFloat64(ctx, (double)(drawn[--left] >> 11) * 0x1p-53);
}

void add_random(JSContext *ctx) {
    JSValue global = JS_GetGlobalObject(ctx), math = JS_GetPropertyStr(ctx, global, "Math");
    JSValue function = JS_NewCFunction(ctx, js_random, "random", 0);
    JS_DefinePropertyValueStr(ctx, math, "random", function, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_FreeValue(ctx, math);
    JS_FreeValue(ctx, global);
}
