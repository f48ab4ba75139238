/* Functions of the module `monohull` for connections, over `monohull_connect` and calls of wasi-libc.
 *
 * An object of the class `Connection` owns a descriptor until it is closed. If the object goes, the connection is closed.
 */
#include "connection.h"
#include "monohull.h"
#include "monohull-wasi.h"
#include "random.h"
#include "values.h"
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes that are read at a time, if the program does not say how many. */
#define READ_USUALLY (64 * 1024)

static JSClassID class_id;

struct connection {
    int descriptor; /* -1: it is closed */
};

static void finalize(JSRuntime *runtime, JSValue object) {
    struct connection *owned = JS_GetOpaque(object, class_id);
    if (owned && owned->descriptor >= 0) close(owned->descriptor);
    free(owned);
}

static const JSClassDef class = { "Connection", .finalizer = finalize };

/* What went wrong, as an exception. What the network has refused comes with the reason. */
static JSValue wrong(JSContext *ctx, const char *what, int number) {
    char text[768], why[256];
    why[0] = 0;
    if (number == EPERM)
        monohull_last_error(why, sizeof why);
    snprintf(text, sizeof text, "%s: %s%s%s", what, strerror(number), why[0] ? ": " : "", why);
    return throw_error(ctx, text, number);
}

/* The descriptor of an object; -1 with an exception if it is of another class, or closed. */
static int descriptor_of(JSContext *ctx, JSValueConst this) {
    struct connection *owned = JS_GetOpaque2(ctx, this, class_id);
    if (owned && owned->descriptor < 0)
        wrong(ctx, "the connection is closed", EBADF);
    return owned ? owned->descriptor : -1;
}

static JSValue js_read(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    int descriptor = descriptor_of(ctx, this);
    uint32_t most = READ_USUALLY;
    if (descriptor < 0 || (!JS_IsUndefined(argv[0]) && JS_ToUint32(ctx, &most, argv[0]) < 0))
        return JS_EXCEPTION;
    uint8_t *bytes = malloc(most ? most : 1);
    if (!bytes)
        return JS_ThrowOutOfMemory(ctx);
    ssize_t got = read(descriptor, bytes, most);
    forget_random();
    if (got > 0 || (got == 0 && most == 0))
        return bytes_value(ctx, bytes, got);
    free(bytes);
    return got == 0 ? JS_NULL : wrong(ctx, "read", errno);
}

static JSValue js_write(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    int descriptor = descriptor_of(ctx, this);
    struct bytes bytes;
    if (descriptor < 0 || get_bytes(ctx, argv[0], &bytes) < 0)
        return JS_EXCEPTION;
    JSValue result = JS_UNDEFINED;
    for (size_t at = 0; at < bytes.length && !JS_IsException(result);) {
        ssize_t put = write(descriptor, bytes.at + at, bytes.length - at);
        forget_random();
        if (put < 0)
            result = wrong(ctx, "write", errno);
        else
            at += put;
    }
    put_bytes(ctx, &bytes);
    return result;
}

static JSValue js_end_write(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    int descriptor = descriptor_of(ctx, this);
    if (descriptor < 0)
        return JS_EXCEPTION;
    return shutdown(descriptor, SHUT_WR) < 0 ? wrong(ctx, "endWrite", errno) : JS_UNDEFINED;
}

/* Again is no error. */
static JSValue js_close(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    struct connection *owned = JS_GetOpaque2(ctx, this, class_id);
    if (!owned)
        return JS_EXCEPTION;
    if (owned->descriptor >= 0)
        close(owned->descriptor);
    owned->descriptor = -1;
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry methods[] = {
    JS_CFUNC_DEF("read", 1, js_read),
    JS_CFUNC_DEF("write", 1, js_write),
    JS_CFUNC_DEF("endWrite", 0, js_end_write),
    JS_CFUNC_DEF("close", 0, js_close),
};

/* An object for a descriptor, which is closed if there is none; the class with the first of them. */
static JSValue object_for(JSContext *ctx, int descriptor) {
    if (class_id == 0) {
        JS_NewClassID(&class_id);
        if (JS_NewClass(JS_GetRuntime(ctx), class_id, &class) < 0) {
            close(descriptor);
            return JS_ThrowOutOfMemory(ctx);
        }
        JSValue prototype = JS_NewObject(ctx);
        JS_SetPropertyFunctionList(ctx, prototype, methods, sizeof methods / sizeof *methods);
        JS_SetClassProto(ctx, class_id, prototype);
    }
    struct connection *owned = malloc(sizeof *owned);
    JSValue object = owned ? JS_NewObjectClass(ctx, class_id) : JS_ThrowOutOfMemory(ctx);
    if (JS_IsException(object)) {
        free(owned);
        close(descriptor);
        return object;
    }
    owned->descriptor = descriptor;
    JS_SetOpaque(object, owned);
    return object;
}

/* `connect(host, port, seconds)` */
static JSValue js_connect(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    double port, seconds = -1;
    if (JS_ToFloat64(ctx, &port, argv[1]) < 0 || (!JS_IsUndefined(argv[2]) && JS_ToFloat64(ctx, &seconds, argv[2]) < 0))
        return JS_EXCEPTION;
    if (!(port >= 1 && port <= 65535) || port != floor(port))
        return JS_ThrowRangeError(ctx, "connect: a port is a number from 1 to 65535");
    const char *host = get_name(ctx, argv[0]);
    if (!host)
        return JS_EXCEPTION;
    int milliseconds = !(seconds >= 0) ? -1 : seconds > 1e6 ? 1000000000 : (int)(seconds * 1000);
    int descriptor = monohull_connect(host, (unsigned)port, milliseconds), number = errno;
    JSValue result;
    forget_random();
    if (descriptor < 0) {
        char what[320];
        snprintf(what, sizeof what, "connect %s:%u", host, (unsigned)port);
        result = wrong(ctx, what, number);
    } else
        result = object_for(ctx, descriptor);
    JS_FreeCString(ctx, host);
    return result;
}

static JSValue js_lookup(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    struct monohull_socket_address found[MONOHULL_LOOKUP_MAX];
    uint32_t count = 0;
    size_t length;
    const char *name = get_text(ctx, argv[0], &length);
    if (!name)
        return JS_EXCEPTION;
    int number = monohull_lookup(name, length, found, MONOHULL_LOOKUP_MAX, &count);
    JSValue result;
    forget_random();
    if (number) {
        char what[320];
        snprintf(what, sizeof what, "lookup %s", name);
        result = wrong(ctx, what, number);
    } else {
        result = JS_NewArray(ctx);
        for (uint32_t at = 0; at < count; at++) {
            char text[64];
            inet_ntop(found[at].family == 4 ? AF_INET : AF_INET6, found[at].address, text, sizeof text);
            JS_SetPropertyUint32(ctx, result, at, JS_NewString(ctx, text));
        }
    }
    JS_FreeCString(ctx, name);
    return result;
}

const JSCFunctionListEntry connection_functions[] = {
    JS_CFUNC_DEF("connect", 3, js_connect),
    JS_CFUNC_DEF("lookup", 1, js_lookup),
};
const int connection_function_count = sizeof connection_functions / sizeof *connection_functions;
