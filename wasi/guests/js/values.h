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
