/* QuickJS as a function: runs the program that `monohull build app.js` has attached to it.
 *
 *     attached program ── as an ES module ──▶ its imports: files of the workflow, and `monohull`
 *             or, of `app.cjs`, as a script ──▶ what it requires: the same
 *                                           ──▶ jobs and timers, until none is left
 *
 * What of the host a program sees is WASI and slots, as for any other guest. An exception that is not caught, or a promise whose
 * rejection is not, ends the instance with its text and its stack in the report. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "children.h"
#include "connection.h"
#include "console.h"
#include "continuation.h"
#include "invocation.h"
#include "monohull.h"
#include "monohull-wasi.h"
#include "quickjs.h"
#include "random.h"
#include "stack.h"
#include "values.h"

extern char **environ;

/* Bytes of the stack that QuickJS leaves when a recursion without end becomes an exception: for what does not check. */
#define STACK_KEPT (96 * 1024)

static _Noreturn void fail(const char *what) {
    fflush(NULL);
    monohull_fail(0, what);
}

/* -- Errors -------------------------------------------------------------------------------------------------------------- */

/* Ends the instance with what was thrown: its text, and the lines of its stack. */
static _Noreturn void fail_with(JSContext *ctx, JSValue error) {
    static const char without[] = "an exception that has no text";
    const char *text = JS_ToCString(ctx, error), *lines = NULL;
    if (JS_IsError(ctx, error)) {
        JSValue stack = JS_GetPropertyStr(ctx, error, "stack");
        lines = JS_IsUndefined(stack) ? NULL : JS_ToCString(ctx, stack);
    }
    if (!text)
        text = without;
    size_t length = strlen(text), more = lines ? strlen(lines) : 0;
    char *both = malloc(length + 1 + more + 1);
    if (!both)
        fail(text);
    memcpy(both, text, length);
    both[length] = '\n';
    memcpy(both + length + 1, lines ? lines : "", more);
    /* Without the line break at its end. */
    for (length += 1 + more; length > 0 && both[length - 1] == '\n'; length--)
        ;
    both[length] = 0;
    fail(both);
}

static _Noreturn void uncaught(JSContext *ctx) {
    fail_with(ctx, JS_GetException(ctx));
}

/* An error of the system as an exception with its number's name. */
static JSValue failed(JSContext *ctx, const char *what, const char *name, int number) {
    char text[512];
    snprintf(text, sizeof text, "%s %s: %s", what, name, strerror(number));
    return throw_error(ctx, text, number);
}

/* An error about a slot, with the runtime's explanation if it has one. */
static JSValue slot_failed(JSContext *ctx, const char *name, int number) {
    char text[512];
    int length = monohull_wasi_last_error(text, sizeof text - 1);
    if (length <= 0)
        return failed(ctx, "slot", name, number);
    text[(size_t)length < sizeof text ? (size_t)length : sizeof text - 1] = 0;
    return throw_error(ctx, text, number);
}

/* Rejections without a handler, by their promise. Handlers may come later, so they are looked at when no job is left. */
struct rejection {
    struct rejection *next;
    JSValue promise, reason;
};
static struct rejection *rejections;

static void track(JSContext *ctx, JSValueConst promise, JSValueConst reason, JS_BOOL handled, void *opaque) {
    if (!handled) {
        struct rejection *new = malloc(sizeof *new);
        if (!new)
            fail("out of memory");
        *new = (struct rejection){ rejections, JS_DupValue(ctx, promise), JS_DupValue(ctx, reason) };
        rejections = new;
        return;
    }
    for (struct rejection **at = &rejections; *at; at = &(*at)->next)
        if (JS_VALUE_GET_PTR((*at)->promise) == JS_VALUE_GET_PTR(promise)) {
            struct rejection *gone = *at;
            *at = gone->next;
            JS_FreeValue(ctx, gone->promise);
            JS_FreeValue(ctx, gone->reason);
            free(gone);
            return;
        }
}

/* -- Files ----------------------------------------------------------------------------------------------------------------- */

/* Reads a file to its end; NULL and errno. */
static uint8_t *read_all(int file, size_t *length) {
    size_t room = 1 << 16;
    uint8_t *bytes = malloc(room);
    *length = 0;
    for (;;) {
        if (!bytes) {
            errno = ENOMEM;
            return NULL;
        }
        ssize_t got = read(file, bytes + *length, room - *length);
        if (got < 0) {
            free(bytes);
            return NULL;
        }
        if (got == 0)
            return bytes;
        *length += got;
        if (*length == room) {
            uint8_t *more = realloc(bytes, room *= 2);
            if (!more)
                free(bytes);
            bytes = more;
        }
    }
}

static uint8_t *read_path(const char *path, size_t *length) {
    int file = open(path, O_RDONLY);
    if (file < 0)
        return NULL;
    uint8_t *bytes = read_all(file, length);
    int number = errno;
    close(file);
    errno = number;
    return bytes;
}

/* -- The module `monohull` ------------------------------------------------------------------------------------------------ */

enum { BYTES, TEXT };

static JSValue js_take(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int kind) {
    size_t name_length;
    const char *name = get_text(ctx, argv[0], &name_length);
    if (!name)
        return JS_EXCEPTION;
    JSValue result;
    struct monohull_slot slot;
    int error = monohull_slot_take(name, name_length, 1, &slot);
    forget_random();
    if (error)
        result = slot_failed(ctx, name, error);
    else {
        /* An allocation of no bytes may be none. A large one begins with a page, so that the slot's can take its place. */
        size_t room = (size_t)slot.length + 1;
        uint8_t *bytes = slot.length < MONOHULL_MOVED_MIN ? malloc(room) : aligned_alloc(MONOHULL_PAGE, room);
        error = bytes ? monohull_slot_move(slot.handle, bytes, slot.length) : ENOMEM;
        if (error) {
            monohull_slot_free(slot.handle);
            free(bytes);
            result = failed(ctx, "slot", name, error);
        }
        else
            result = kind == TEXT ? text_value(ctx, bytes, slot.length) : bytes_value(ctx, bytes, slot.length);
    }
    JS_FreeCString(ctx, name);
    return result;
}

static JSValue js_publish(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t name_length;
    const char *name = get_text(ctx, argv[0], &name_length);
    if (!name)
        return JS_EXCEPTION;
    JSValue result = JS_EXCEPTION;
    struct bytes bytes;
    if (get_bytes(ctx, argv[1], &bytes) == 0) {
        int error = monohull_slot_publish(name, name_length, bytes.at, bytes.length, bytes.text != NULL);
        result = error ? slot_failed(ctx, name, error) : JS_UNDEFINED;
        put_bytes(ctx, &bytes);
    }
    JS_FreeCString(ctx, name);
    return result;
}

static JSValue js_read_file(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int kind) {
    const char *path = get_name(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    size_t length;
    uint8_t *bytes = read_path(path, &length);
    JSValue result;
    if (!bytes)
        result = failed(ctx, "file", path, errno);
    else
        result = kind == TEXT ? text_value(ctx, bytes, length) : bytes_value(ctx, bytes, length);
    JS_FreeCString(ctx, path);
    return result;
}

static JSValue js_read_input(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int kind) {
    size_t length;
    uint8_t *bytes = read_all(0, &length);
    forget_random();
    if (!bytes)
        return failed(ctx, "standard", "input", errno);
    return kind == TEXT ? text_value(ctx, bytes, length) : bytes_value(ctx, bytes, length);
}

static int write_all(int file, const uint8_t *bytes, size_t length) {
    while (length > 0) {
        ssize_t put = write(file, bytes, length);
        if (put < 0)
            return -1;
        bytes += put;
        length -= put;
    }
    return 0;
}

static JSValue js_write_file(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    const char *path = get_name(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    JSValue result = JS_EXCEPTION;
    struct bytes bytes;
    if (get_bytes(ctx, argv[1], &bytes) == 0) {
        int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        int done = file < 0 ? -1 : write_all(file, bytes.at, bytes.length);
        int number = errno;
        if (file >= 0 && close(file) < 0 && done == 0) {
            done = -1;
            number = errno;
        }
        result = done < 0 ? failed(ctx, "file", path, number) : JS_UNDEFINED;
        put_bytes(ctx, &bytes);
    }
    JS_FreeCString(ctx, path);
    return result;
}

static JSValue js_exit(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    int32_t status = 0;
    if (!JS_IsUndefined(argv[0]) && JS_ToInt32(ctx, &status, argv[0]) < 0)
        return JS_EXCEPTION;
    exit(status);
}

static JSValue js_collect_garbage(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    JS_RunGC(JS_GetRuntime(ctx));
    return JS_UNDEFINED;
}

/* Used by the prelude alone, which makes TextEncoder and TextDecoder of them. */
static JSValue js_encode(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    size_t length;
    const char *text = get_text(ctx, argv[0], &length);
    if (!text)
        return JS_EXCEPTION;
    uint8_t *bytes = malloc(length + 1);
    if (!bytes)
        fail("out of memory");
    memcpy(bytes, text, length);
    JS_FreeCString(ctx, text);
    return bytes_value(ctx, bytes, length);
}

static JSValue js_decode(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    struct bytes bytes;
    if (get_bytes(ctx, argv[0], &bytes) < 0)
        return JS_EXCEPTION;
    JSValue text = JS_NewStringLen(ctx, (const char *)bytes.at, bytes.length);
    put_bytes(ctx, &bytes);
    return text;
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_MAGIC_DEF("takeBytes", 1, js_take, BYTES),
    JS_CFUNC_MAGIC_DEF("takeText", 1, js_take, TEXT),
    JS_CFUNC_DEF("publish", 2, js_publish),
    JS_CFUNC_MAGIC_DEF("readFile", 1, js_read_file, BYTES),
    JS_CFUNC_MAGIC_DEF("readTextFile", 1, js_read_file, TEXT),
    JS_CFUNC_DEF("writeFile", 2, js_write_file),
    JS_CFUNC_MAGIC_DEF("readInput", 0, js_read_input, BYTES),
    JS_CFUNC_MAGIC_DEF("readInputText", 0, js_read_input, TEXT),
    JS_CFUNC_DEF("exit", 1, js_exit),
    JS_CFUNC_DEF("collectGarbage", 0, js_collect_garbage),
};
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
static const char *const values[] = { "args", "env", "instance" };

static int the_argc;
static char **the_argv;

static JSValue args_value(JSContext *ctx) {
    JSValue args = JS_NewArray(ctx);
    for (int i = 1; i < the_argc; i++)
        JS_SetPropertyUint32(ctx, args, i - 1, JS_NewString(ctx, the_argv[i]));
    return args;
}

static JSValue env_value(JSContext *ctx) {
    JSValue env = JS_NewObject(ctx);
    for (char **at = environ; at && *at; at++) {
        char *equals = strchr(*at, '=');
        if (!equals)
            continue;
        JSAtom name = JS_NewAtomLen(ctx, *at, equals - *at);
        JS_DefinePropertyValue(ctx, env, name, JS_NewString(ctx, equals + 1), JS_PROP_C_W_E);
        JS_FreeAtom(ctx, name);
    }
    return env;
}

static JSValue instance_value(JSContext *ctx) {
    JSValue instance = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, instance, "index", JS_NewUint32(ctx, monohull_instance_index()));
    JS_SetPropertyStr(ctx, instance, "count", JS_NewUint32(ctx, monohull_instance_count()));
    return instance;
}

static int init_module(JSContext *ctx, JSModuleDef *module) {
    JS_SetModuleExport(ctx, module, "args", args_value(ctx));
    JS_SetModuleExport(ctx, module, "env", env_value(ctx));
    JS_SetModuleExport(ctx, module, "instance", instance_value(ctx));
    if (JS_SetModuleExportList(ctx, module, functions, COUNT(functions)) < 0 ||
        JS_SetModuleExportList(ctx, module, children_functions, children_function_count) < 0 ||
        JS_SetModuleExportList(ctx, module, connection_functions, connection_function_count) < 0 ||
        JS_SetModuleExportList(ctx, module, invocation_functions, invocation_function_count) < 0)
        return -1;
    return JS_SetModuleExportList(ctx, module, continuation_functions, continuation_function_count);
}

static void add_module(JSContext *ctx) {
    JSModuleDef *module = JS_NewCModule(ctx, "monohull", init_module);
    if (!module || JS_AddModuleExportList(ctx, module, functions, COUNT(functions)) < 0 ||
        JS_AddModuleExportList(ctx, module, children_functions, children_function_count) < 0 ||
        JS_AddModuleExportList(ctx, module, connection_functions, connection_function_count) < 0 ||
        JS_AddModuleExportList(ctx, module, invocation_functions, invocation_function_count) < 0 ||
        JS_AddModuleExportList(ctx, module, continuation_functions, continuation_function_count) < 0)
        fail("out of memory");
    for (int i = 0; i < COUNT(values); i++)
        JS_AddModuleExport(ctx, module, values[i]);
}

/* Other modules are files that the workflow mounts. */
static JSModuleDef *load(JSContext *ctx, const char *path, void *opaque) {
    size_t length;
    uint8_t *bytes = read_path(path, &length);
    if (!bytes) {
        const char *why = strerror(errno);
        if (errno == ENOENT)
            why = path[0] == '/' || strchr(path, '.') ? "there is no such file" : "there is none, and no packages or modules of Node.js (docs/wasi.md)";
        JS_ThrowReferenceError(ctx, "module %s: %s", path, why);
        return NULL;
    }
    uint8_t *ended = realloc(bytes, length + 1);
    if (!ended)
        fail("out of memory");
    ended[length] = 0;
    JSValue module = JS_Eval(ctx, (char *)ended, length, path, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    free(ended);
    if (JS_IsException(module))
        return NULL;
    JSModuleDef *definition = JS_VALUE_GET_PTR(module);
    JS_FreeValue(ctx, module);
    return definition;
}

/* -- Globals ---------------------------------------------------------------------------------------------------------------- */

struct timer {
    struct timer *next;
    int32_t number;
    int64_t due;
    JSValue function;
};
static struct timer *timers;
static int32_t last_timer;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static JSValue js_set_timeout(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    double milliseconds = 0;
    if (!JS_IsFunction(ctx, argv[0]))
        return JS_ThrowTypeError(ctx, "setTimeout: not a function");
    if (!JS_IsUndefined(argv[1]) && JS_ToFloat64(ctx, &milliseconds, argv[1]) < 0)
        return JS_EXCEPTION;
    /* Also what is no number. */
    if (!(milliseconds > 0))
        milliseconds = 0;
    if (milliseconds > 1e12)
        milliseconds = 1e12;
    struct timer *new = malloc(sizeof *new), **at = &timers;
    if (!new)
        fail("out of memory");
    *new = (struct timer){ NULL, ++last_timer, now() + (int64_t)(milliseconds * 1e6), JS_DupValue(ctx, argv[0]) };
    while (*at && (*at)->due <= new->due)
        at = &(*at)->next;
    new->next = *at;
    *at = new;
    return JS_NewInt32(ctx, new->number);
}

static void remove_timer(JSContext *ctx, struct timer **at) {
    struct timer *gone = *at;
    *at = gone->next;
    JS_FreeValue(ctx, gone->function);
    free(gone);
}

static JSValue js_clear_timeout(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    int32_t number = 0;
    if (JS_ToInt32(ctx, &number, argv[0]) < 0)
        return JS_EXCEPTION;
    for (struct timer **at = &timers; *at; at = &(*at)->next)
        if ((*at)->number == number) {
            remove_timer(ctx, at);
            break;
        }
    return JS_UNDEFINED;
}

/* Jobs first, then the earliest timer, until there is neither. */
static void run_jobs(JSContext *ctx) {
    for (;;) {
        JSContext *of;
        int done = JS_ExecutePendingJob(JS_GetRuntime(ctx), &of);
        if (done < 0)
            uncaught(of);
        if (done > 0)
            continue;
        if (rejections)
            fail_with(ctx, rejections->reason);
        if (!timers)
            return;
        int64_t rest = timers->due - now();
        if (rest > 0) {
            struct timespec pause = { rest / 1000000000, rest % 1000000000 };
            fflush(stdout);
            nanosleep(&pause, NULL);
            forget_random();
            continue;
        }
        JSValue function = JS_DupValue(ctx, timers->function);
        remove_timer(ctx, &timers);
        JSValue result = JS_Call(ctx, function, JS_UNDEFINED, 0, NULL);
        JS_FreeValue(ctx, function);
        if (JS_IsException(result))
            uncaught(ctx);
        JS_FreeValue(ctx, result);
    }
}

static const char prelude[] =
    "((encode, decode) => {\n"
    "  globalThis.TextEncoder = class TextEncoder {\n"
    "    get encoding() { return 'utf-8'; }\n"
    "    encode(text = '') { return encode(String(text)); }\n"
    "  };\n"
    "  globalThis.TextDecoder = class TextDecoder {\n"
    "    constructor(label = 'utf-8') {\n"
    "      if (!/^utf-?8$/i.test(label)) throw new RangeError(`TextDecoder: there is only utf-8, not ${label}`);\n"
    "    }\n"
    "    get encoding() { return 'utf-8'; }\n"
    "    decode(bytes = new Uint8Array()) {\n"
    "      if (bytes instanceof DataView) bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);\n"
    "      return decode(bytes).replace(/^\\ufeff/, '');\n"
    "    }\n"
    "  };\n"
    "})";

static void add_function(JSContext *ctx, JSValueConst object, const char *name, JSCFunction *function, int length) {
    JS_SetPropertyStr(ctx, object, name, JS_NewCFunction(ctx, function, name, length));
}

static void add_globals(JSContext *ctx) {
    JSValue global = JS_GetGlobalObject(ctx);
    add_console(ctx);
    add_random(ctx);
    add_function(ctx, global, "setTimeout", js_set_timeout, 2);
    add_function(ctx, global, "clearTimeout", js_clear_timeout, 1);
    JSValue make = JS_Eval(ctx, prelude, sizeof prelude - 1, "<prelude>", JS_EVAL_TYPE_GLOBAL);
    JSValue both[] = { JS_NewCFunction(ctx, js_encode, "encode", 1), JS_NewCFunction(ctx, js_decode, "decode", 1) };
    JSValue made = JS_IsException(make) ? JS_EXCEPTION : JS_Call(ctx, make, JS_UNDEFINED, 2, both);
    if (JS_IsException(made))
        uncaught(ctx);
    JS_FreeValue(ctx, both[0]);
    JS_FreeValue(ctx, both[1]);
    JS_FreeValue(ctx, make);
    JS_FreeValue(ctx, global);
}

/* -- Scripts --------------------------------------------------------------------------------------------------------------- */

/* A program called so is a script: its declarations are globals, and it is not strict unless it says so. */
#define SCRIPT ".cjs"

static int is_script(const char *name) {
    size_t length = strlen(name), end = strlen(SCRIPT);
    return length >= end && strcmp(name + length - end, SCRIPT) == 0;
}

/* What is required is a file of the workflow that is run as a function, once, or JSON, or `monohull`. */
static const char requires[] =
    "(function require(monohull) {\n"
    "  const { readTextFile: read } = monohull, { compile } = require;\n"
    "  const known = new Map();\n"
    "  const folder = path => path.slice(0, Math.max(path.lastIndexOf('/'), 0));\n"
    "  const beside = (from, name) => {\n"
    "    if (!/^\\.{0,2}\\//.test(name)) throw new Error(`require: ${name} is no path: there are no packages or modules of Node.js`);\n"
    "    const parts = [];\n"
    "    for (const part of (name[0] === '/' ? name : `${from}/${name}`).split('/'))\n"
    "      if (part === '..') parts.pop(); else if (part !== '' && part !== '.') parts.push(part);\n"
    "    return `/${parts.join('/')}`;\n"
    "  };\n"
    "  const from = here => name => {\n"
    "    if (name === 'monohull') return monohull;\n"
    "    const path = beside(here, String(name));\n"
    "    let module = known.get(path);\n"
    "    if (module) return module.exports;\n"
    "    const text = read(path);\n"
    "    known.set(path, module = { exports: {} });\n"
    "    try {\n"
    "      if (path.endsWith('.json')) module.exports = JSON.parse(text);\n"
    "      else compile(text, path).call(module.exports, module, module.exports, from(folder(path)), path, folder(path));\n"
    "    } catch (error) {\n"
    "      known.delete(path);\n"
    "      throw error;\n"
    "    }\n"
    "    return module.exports;\n"
    "  };\n"
    "  globalThis.require = from('');\n"
    "  globalThis.module = { exports: globalThis.exports = {} };\n"
    "})";

/* A text as a function of what a required file sees. */
static JSValue js_compile(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    static const char before[] = "(function (module, exports, require, __filename, __dirname) {", after[] = "\n})";
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, argv[0]), *path = JS_ToCString(ctx, argv[1]);
    char *whole = malloc(sizeof before + length + sizeof after);
    JSValue result = JS_EXCEPTION;
    if (!whole)
        JS_ThrowOutOfMemory(ctx);
    else if (text && path) {
        memcpy(whole, before, sizeof before - 1);
        memcpy(whole + sizeof before - 1, text, length);
        memcpy(whole + sizeof before - 1 + length, after, sizeof after);
        result = JS_Eval(ctx, whole, sizeof before - 1 + length + sizeof after - 1, path, JS_EVAL_TYPE_GLOBAL);
    }
    free(whole);
    JS_FreeCString(ctx, text);
    JS_FreeCString(ctx, path);
    return result;
}

/* Scripts have no `import`, so what the module `monohull` exports is handed to `require` by one that has. */
static void add_require(JSContext *ctx) {
    static const char hand[] = "import * as monohull from 'monohull'; globalThis.require(monohull);";
    JSValue global = JS_GetGlobalObject(ctx), make = JS_Eval(ctx, requires, sizeof requires - 1, "<require>", JS_EVAL_TYPE_GLOBAL);
    if (JS_IsException(make))
        uncaught(ctx);
    JS_SetPropertyStr(ctx, global, "require", make);
    add_function(ctx, make, "compile", js_compile, 2);
    JSValue module = JS_Eval(ctx, hand, sizeof hand - 1, "<require>", JS_EVAL_TYPE_MODULE);
    if (JS_IsException(module))
        uncaught(ctx);
    JS_FreeValue(ctx, module);
    run_jobs(ctx);
    JS_FreeValue(ctx, global);
}

int main(int argc, char **argv) {
    the_argc = argc;
    the_argv = argv;
    /* Each line is shown when it is complete. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* A text that messages call the program, a zero, the program. */
    uint32_t length = monohull_attachment_length();
    char *attachment = malloc((size_t)length + 1);
    if (!attachment || monohull_attachment_read(0, attachment, length) != 0)
        fail("the program cannot be read");
    attachment[length] = 0;
    size_t name = strlen(attachment) + 1;
    if (length == 0 || name > length)
        fail("this is the interpreter alone, without a program: `monohull build app.js` makes a function of both");

    JSRuntime *runtime = JS_NewRuntime();
    JSContext *ctx = runtime ? JS_NewContext(runtime) : NULL;
    if (!ctx)
        fail("out of memory");
    JS_SetMaxStackSize(runtime, monohull_stack_left() - STACK_KEPT);
    JS_SetHostPromiseRejectionTracker(runtime, track, NULL);
    JS_SetModuleLoaderFunc(runtime, NULL, load, NULL);
    add_module(ctx);
    add_globals(ctx);
    int script = is_script(attachment);
    if (script)
        add_require(ctx);
    JSValue result =
        JS_Eval(ctx, attachment + name, length - name, attachment, script ? JS_EVAL_TYPE_GLOBAL : JS_EVAL_TYPE_MODULE);
    if (JS_IsException(result))
        uncaught(ctx);
    run_jobs(ctx);
    /* A module is a promise. What it waits for will not come any more. */
    if (JS_PromiseState(ctx, result) == JS_PROMISE_PENDING)
        fail("the program waits for a promise that nothing is left to fulfil");
    /* Memory goes with the instance. */
    exit(fflush(stdout) == 0 ? 0 : 1);
}
