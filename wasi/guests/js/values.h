/* Values of a program in JavaScript that are bytes, texts or errors. */
#ifndef VALUES_H
#define VALUES_H

#include "quickjs.h"
#include <stddef.h>
#include <stdint.h>

/* Throws an error of this text with a number, its `errno`. */
JSValue throw_error(JSContext *ctx, const char *text, int number);

/* A Uint8Array that owns these bytes, which `malloc` gave, and a text of them. */
JSValue bytes_value(JSContext *ctx, uint8_t *bytes, size_t length);
JSValue text_value(JSContext *ctx, uint8_t *bytes, size_t length);

/* A text in UTF-8: half of a pair of surrogates is U+FFFD in it, as in all texts that leave a program. The second one is for calls that end a text with a zero: one
 * that has a zero in it is an exception, and not a part of it. NULL with an exception; `JS_FreeCString` frees it. */
const char *get_text(JSContext *ctx, JSValueConst value, size_t *length);
const char *get_name(JSContext *ctx, JSValueConst value);

/* The bytes of a text, an ArrayBuffer or a view of one; as long as the value lives. */
struct bytes {
    const uint8_t *at;
    size_t length;
    const char *text;
};

/* 0, or -1 with an exception. */
int get_bytes(JSContext *ctx, JSValueConst value, struct bytes *out);
void put_bytes(JSContext *ctx, struct bytes *bytes);

#endif
