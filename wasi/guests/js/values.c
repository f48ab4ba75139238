/* Values of a program in JavaScript: see `values.h`. */
#include "values.h"
#include <stdlib.h>
#include <string.h>

JSValue throw_error(JSContext *ctx, const char *text, int number) {
    JSValue error = JS_NewError(ctx);
    JS_DefinePropertyValueStr(ctx, error, "message", JS_NewString(ctx, text), JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_DefinePropertyValueStr(ctx, error, "errno", JS_NewInt32(ctx, number), JS_PROP_C_W_E);
    return JS_Throw(ctx, error);
}

static void free_bytes(JSRuntime *runtime, void *opaque, void *bytes) {
    free(bytes);
}

JSValue bytes_value(JSContext *ctx, uint8_t *bytes, size_t length) {
    JSValue buffer = JS_NewArrayBuffer(ctx, bytes, length, free_bytes, NULL, 0);
    if (JS_IsException(buffer))
        return buffer;
    /* All of it: neither an offset nor a length. */
    JSValue arguments[] = { buffer, JS_UNDEFINED, JS_UNDEFINED };
    JSValue array = JS_NewTypedArray(ctx, 3, arguments, JS_TYPED_ARRAY_UINT8);
    JS_FreeValue(ctx, buffer);
    return array;
}

JSValue text_value(JSContext *ctx, uint8_t *bytes, size_t length) {
    JSValue text = JS_NewStringLen(ctx, (char *)bytes, length);
    free(bytes);
    return text;
}

const char *get_text(JSContext *ctx, JSValueConst value, size_t *length) {
    const char *text = JS_ToCStringLen(ctx, length, value);
    /* In a text of ASCII there is none. Any other is a copy, which is the caller's, and no longer than before. */
    for (size_t i = 0; text && i + 2 < *length; i++) {
        uint8_t *at = (uint8_t *)text + i;
        if (at[0] == 0xed && at[1] >= 0xa0)
            memcpy(at, "\xef\xbf\xbd", 3);
    }
    return text;
}

const char *get_name(JSContext *ctx, JSValueConst value) {
    size_t length;
    const char *name = get_text(ctx, value, &length);
    if (!name || strlen(name) == length)
        return name;
    JS_FreeCString(ctx, name);
    JS_ThrowTypeError(ctx, "a text has a zero character in it");
    return NULL;
}

int get_bytes(JSContext *ctx, JSValueConst value, struct bytes *out) {
    out->text = NULL;
    if (JS_IsString(value)) {
        out->text = get_text(ctx, value, &out->length);
        out->at = (const uint8_t *)out->text;
        return out->text ? 0 : -1;
    }
    size_t offset = 0, length = 0, whole = 0;
    JSValue buffer = JS_GetTypedArrayBuffer(ctx, value, &offset, &length, NULL);
    if (JS_IsException(buffer)) {
        JS_FreeValue(ctx, JS_GetException(ctx));
        out->at = JS_GetArrayBuffer(ctx, &out->length, value);
        return out->at ? 0 : -1;
    }
    const uint8_t *start = JS_GetArrayBuffer(ctx, &whole, buffer);
    /* The array keeps its buffer. */
    JS_FreeValue(ctx, buffer);
    if (!start)
        return -1;
    out->at = start + offset;
    out->length = length;
    return 0;
}

void put_bytes(JSContext *ctx, struct bytes *bytes) {
    if (bytes->text)
        JS_FreeCString(ctx, bytes->text);
}
