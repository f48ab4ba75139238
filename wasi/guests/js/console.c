/* `console`: values as Node.js shows them, so that a program which prints an object tells what is in it. */
#include "console.h"
#include "values.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Given what writes a line, to the standard output or to the standard error, it gives the methods. Lists have 100 items at most, and objects in objects two levels.
 * It is read when something is printed for the first time that is no text or number: that takes half a millisecond. */
static const char source[] =
    "((write) => {\n"
    "  const DEPTH = 2, ITEMS = 100, WIDTH = 72, SHORT = 20;\n"
    "  const quote = (text) => {\n"
    "    const mark = !text.includes(\"'\") ? \"'\" : !text.includes('\"') ? '\"' : \"'\";\n"
    "    const inner = JSON.stringify(text).slice(1, -1).replaceAll('\\\\\"', '\"');\n"
    "    return mark + (mark === \"'\" ? inner.replaceAll(\"'\", \"\\\\'\") : inner) + mark;\n"
    "  };\n"
    "  const named = (key) =>\n"
    "    typeof key === 'symbol' ? `[${String(key)}]` : /^[A-Za-z_$][\\w$]*$/.test(key) ? key : quote(key);\n"
    "  const kind = (object) => {\n"
    "    const prototype = Object.getPrototypeOf(object);\n"
    "    const made = prototype?.constructor;\n"
    "    return prototype === null ? '[Object: null prototype]' : typeof made === 'function' ? made.name : '';\n"
    "  };\n"
    "  const called = (value) => {\n"
    "    const text = Function.prototype.toString.call(value);\n"
    "    return text.startsWith('class') ? `[class ${value.name || '(anonymous)'}]`\n"
    "      : value.name ? `[Function: ${value.name}]` : '[Function (anonymous)]';\n"
    "  };\n"
    "  const failure = (error, inside) => {\n"
    "    const lines = typeof error.stack === 'string' ? error.stack.trimEnd() : '';\n"
    "    const cause = Object.hasOwn(error, 'cause') ? `\\n  [cause]: ${inside(error.cause)}` : '';\n"
    "    return String(error) + (lines ? '\\n' + lines : '') + cause;\n"
    "  };\n"
    "  const filled = (items) => {\n"
    "    const lines = [''];\n"
    "    for (const [at, item] of items.entries()) {\n"
    "      const text = at < items.length - 1 ? item + ',' : item, last = lines.at(-1);\n"
    "      if (last === '') lines[lines.length - 1] = text;\n"
    "      else if (last.length + 1 + text.length > WIDTH) lines.push(text);\n"
    "      else lines[lines.length - 1] += ' ' + text;\n"
    "    }\n"
    "    return lines.join('\\n');\n"
    "  };\n"
    "  const show = (value, around) => {\n"
    "    switch (typeof value) {\n"
    "      case 'string': return quote(value);\n"
    "      case 'bigint': return `${value}n`;\n"
    "      case 'number': return Object.is(value, -0) ? '-0' : String(value);\n"
    "      case 'object': return value === null ? 'null' : shape(value, around);\n"
    "      case 'function': return Object.keys(value).length === 0 ? called(value) : shape(value, around);\n"
    "      default: return String(value);\n"
    "    }\n"
    "  };\n"
    "  const shape = (object, around) => {\n"
    "    if (around.includes(object)) return '[Circular]';\n"
    "    const inside = (value) => show(value, [...around, object]);\n"
    "    if (object instanceof Error) return failure(object, inside);\n"
    "    if (object instanceof Date) return isNaN(object) ? 'Invalid Date' : object.toISOString();\n"
    "    if (object instanceof RegExp) return String(object);\n"
    "    const name = kind(object);\n"
    "    const isList = Array.isArray(object), isView = ArrayBuffer.isView(object) && !(object instanceof DataView);\n"
    "    if (around.length > DEPTH) return `[${isList ? 'Array' : name || 'Object'}]`;\n"
    "    let head = name && name !== 'Object' ? `${name} ` : '';\n"
    "    const items = [];\n"
    "    const all = (list, size, item) => {\n"
    "      let at = 0;\n"
    "      for (const entry of list) {\n"
    "        if (at++ === ITEMS) break;\n"
    "        items.push(item(entry));\n"
    "      }\n"
    "      if (size > ITEMS) items.push(`... ${size - ITEMS} more item${size - ITEMS > 1 ? 's' : ''}`);\n"
    "    };\n"
    "    if (isList || isView) {\n"
    "      head = isView || name !== 'Array' ? `${name}(${object.length}) ` : '';\n"
    "      const first = Array.from({ length: Math.min(object.length, ITEMS) }, (_, at) => at);\n"
    "      all(first, 0, (at) => (at in object ? inside(object[at]) : '<empty>'));\n"
    "      all([], object.length);\n"
    "    } else if (object instanceof Map) {\n"
    "      head = `${name}(${object.size}) `;\n"
    "      all(object, object.size, ([key, entry]) => `${inside(key)} => ${inside(entry)}`);\n"
    "    } else if (object instanceof Set) {\n"
    "      head = `${name}(${object.size}) `;\n"
    "      all(object, object.size, inside);\n"
    "    } else if (object instanceof ArrayBuffer || object instanceof DataView) {\n"
    "      items.push(`byteLength: ${object.byteLength}`);\n"
    "    } else if (typeof object === 'function') {\n"
    "      head = called(object) + ' ';\n"
    "    }\n"
    "    const keys = Reflect.ownKeys(object).filter((key) =>\n"
    "      Object.prototype.propertyIsEnumerable.call(object, key) && !((isList || isView) && /^\\d+$/.test(String(key))));\n"
    "    all(keys, keys.length, (key) => {\n"
    "      const { get, set, value } = Object.getOwnPropertyDescriptor(object, key);\n"
    "      const text = get ? (set ? '[Getter/Setter]' : '[Getter]') : set ? '[Setter]' : inside(value);\n"
    "      return `${named(key)}: ${text}`;\n"
    "    });\n"
    "    const [open, close] = isList || isView ? '[]' : '{}';\n"
    "    if (items.length === 0) return head + open + close;\n"
    "    const line = items.join(', ');\n"
    "    if (line.length + head.length <= WIDTH && !line.includes('\\n')) return `${head}${open} ${line} ${close}`;\n"
    "    const lines = open === '[' && items.every((item) => item.length <= SHORT) ? filled(items) : items.join(',\\n');\n"
    "    return `${head}${open}\\n  ${lines.replaceAll('\\n', '\\n  ')}\\n${close}`;\n"
    "  };\n"
    "  const text = (value) => (typeof value === 'string' ? value : show(value, []));\n"
    "  const format = (values) => {\n"
    "    if (typeof values[0] !== 'string' || values.length === 1 || !values[0].includes('%')) return values.map(text).join(' ');\n"
    "    const rest = values.slice(1);\n"
    "    const first = values[0].replace(/%[sdifjoOc%]/g, (mark) => {\n"
    "      if (mark === '%%') return '%';\n"
    "      if (rest.length === 0) return mark;\n"
    "      const value = rest.shift();\n"
    "      switch (mark) {\n"
    "        case '%s': return text(value);\n"
    "        case '%d': return typeof value === 'bigint' ? `${value}n` : String(Number(value));\n"
    "        case '%i': return typeof value === 'bigint' ? `${value}n` : String(parseInt(value, 10));\n"
    "        case '%f': return String(parseFloat(value));\n"
    "        case '%j': return JSON.stringify(value);\n"
    "        case '%c': return '';\n"
    "        default: return show(value, []);\n"
    "      }\n"
    "    });\n"
    "    return [first, ...rest.map(text)].join(' ');\n"
    "  };\n"
    "  let indent = '';\n"
    "  const say = (isError, values) => {\n"
    "    const line = format(values);\n"
    "    write(indent ? indent + line.replaceAll('\\n', '\\n' + indent) : line, isError);\n"
    "  };\n"
    "  const log = (...values) => say(false, values), error = (...values) => say(true, values);\n"
    "  const counts = new Map(), times = new Map();\n"
    "  const spent = (label) => `${label}: ${Date.now() - times.get(label)}ms`;\n"
    "  return {\n"
    "    log, info: log, debug: log, error, warn: error,\n"
    "    dir: (value) => log(show(value, [])),\n"
    "    assert: (holds, ...values) => {\n"
    "      if (holds) return;\n"
    "      if (typeof values[0] === 'string') values[0] = `Assertion failed: ${values[0]}`;\n"
    "      else values.unshift('Assertion failed');\n"
    "      error(...values);\n"
    "    },\n"
    "    trace: (...values) => error(`Trace: ${format(values)}\\n${new Error().stack.trimEnd()}`),\n"
    "    count: (label = 'default') => {\n"
    "      counts.set(label, (counts.get(label) ?\? 0) + 1);\n"
    "      log(`${label}: ${counts.get(label)}`);\n"
    "    },\n"
    "    countReset: (label = 'default') => { counts.delete(label); },\n"
    "    time: (label = 'default') => { times.set(label, Date.now()); },\n"
    "    timeLog: (label = 'default', ...values) => { if (times.has(label)) log(spent(label), ...values); },\n"
    "    timeEnd: (label = 'default') => {\n"
    "      if (times.has(label)) log(spent(label));\n"
    "      times.delete(label);\n"
    "    },\n"
    "    group: (...values) => {\n"
    "      if (values.length > 0) log(...values);\n"
    "      indent += '  ';\n"
    "    },\n"
    "    groupEnd: () => { indent = indent.slice(2); },\n"
    "  };\n"
    "})\n";

/* Writes values as texts, with spaces between them, and ends the line. */
static JSValue print(JSContext *ctx, int argc, JSValueConst *argv, FILE *to) {
    for (int i = 0; i < argc; i++) {
        size_t length;
        const char *text = get_text(ctx, argv[i], &length);
        if (!text)
            return JS_EXCEPTION;
        if (i > 0)
            fputc(' ', to);
        fwrite(text, 1, length, to);
        JS_FreeCString(ctx, text);
    }
    fputc('\n', to);
    return JS_UNDEFINED;
}

static JSValue js_print(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return print(ctx, argc, argv, stdout);
}

/* `write(line, isError)`. */
static JSValue js_write(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv) {
    return print(ctx, 1, argv, JS_ToBool(ctx, argv[1]) ? stderr : stdout);
}

/* The methods of `console`; the first print what they are given, those from ERRORS on to the standard error. */
static const char *const names[] = { "log", "info", "debug", "error", "warn", "dir", "assert", "trace", "count", "countReset",
                                     "time", "timeLog", "timeEnd", "group", "groupEnd" };
enum { ERRORS = 3, LINES = 5, GROUP = 13 };

/* The methods in JavaScript, once there are any. */
static JSValue methods = JS_UNDEFINED;
/* Lines have had an indentation. */
static int has_groups;

/* Whether values are printed as their texts are. */
static int are_plain(JSContext *ctx, int argc, JSValueConst *argv) {
    for (int i = 0; i < argc; i++) {
        double number = 1;
        if (JS_IsNumber(argv[i]))
            JS_ToFloat64(ctx, &number, argv[i]);
        else if (!JS_IsString(argv[i]) && !JS_IsBool(argv[i]) && !JS_IsNull(argv[i]) && !JS_IsUndefined(argv[i]))
            return 0;
        if (number == 0 && signbit(number))
            return 0;
    }
    if (argc < 2 || !JS_IsString(argv[0]))
        return 1;
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, argv[0]);
    int has_places = !text || memchr(text, '%', length) != NULL;
    JS_FreeCString(ctx, text);
    return !has_places;
}

static JSValue make_methods(JSContext *ctx) {
    JSValue write = JS_NewCFunction(ctx, js_write, "write", 2);
    JSValue make = JS_Eval(ctx, source, sizeof source - 1, "<console>", JS_EVAL_TYPE_GLOBAL);
    JSValue made = JS_IsException(make) ? JS_EXCEPTION : JS_Call(ctx, make, JS_UNDEFINED, 1, &write);
    JS_FreeValue(ctx, make);
    JS_FreeValue(ctx, write);
    return made;
}

static JSValue js_console(JSContext *ctx, JSValueConst this, int argc, JSValueConst *argv, int which) {
    if (which < LINES && !has_groups && are_plain(ctx, argc, argv))
        return print(ctx, argc, argv, which < ERRORS ? stdout : stderr);
    if (JS_IsUndefined(methods)) {
        JSValue made = make_methods(ctx);
        if (JS_IsException(made))
            return made;
        methods = made;
    }
    has_groups |= which == GROUP;
    JSValue method = JS_GetPropertyStr(ctx, methods, names[which]);
    JSValue result = JS_Call(ctx, method, JS_UNDEFINED, argc, argv);
    JS_FreeValue(ctx, method);
    return result;
}

void add_console(JSContext *ctx) {
    JSValue global = JS_GetGlobalObject(ctx), console = JS_NewObject(ctx);
    for (int which = 0; which < (int)(sizeof names / sizeof *names); which++) {
        JSValue method = JS_NewCFunctionMagic(ctx, js_console, names[which], 0, JS_CFUNC_generic_magic, which);
        JS_SetPropertyStr(ctx, console, names[which], method);
    }
    JS_SetPropertyStr(ctx, global, "console", console);
    JS_SetPropertyStr(ctx, global, "print", JS_NewCFunction(ctx, js_print, "print", 1));
    JS_FreeValue(ctx, global);
}
