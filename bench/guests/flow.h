/* What the functions of these workflows have in common: arguments of the form `--name=value`, and slots whose names end in numbers. Each program is compiled
 * twice, as a native function and for WebAssembly. */
#ifndef FLOW_H
#define FLOW_H

#include <monohull.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const char *argument(int count, char **arguments, const char *name) {
    size_t length = strlen(name);
    for (int i = 1; i < count; i++)
        if (strncmp(arguments[i], name, length) == 0)
            return arguments[i] + length;
    return "";
}

static inline size_t number(int count, char **arguments, const char *name) {
    return strtoul(argument(count, arguments, name), NULL, 10);
}

static inline void must(int done, const char *what) {
    if (done < 0) {
        char text[256];
        monohull_last_error(text, sizeof text);
        fprintf(stderr, "%s: %d: %s\n", what, done, text);
        exit(1);
    }
}

static inline void need(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

/* What a step of a workflow does, by its argument `--role=`; `--parts=` is for it. */
struct role {
    const char *name;
    void (*play)(size_t parts);
};

static inline void play(int count, char **arguments, const struct role *roles, size_t known) {
    const char *name = argument(count, arguments, "--role=");
    size_t parts = number(count, arguments, "--parts=");
    need(parts > 0, "--parts");
    for (size_t at = 0; at < known; at++)
        if (strcmp(roles[at].name, name) == 0) {
            roles[at].play(parts);
            return;
        }
    need(0, "--role");
}

/* The slot NAME.A, or NAME.A.B if B is not below zero. */
static inline const char *slot(const char *name, long a, long b) {
    static char text[64];
    if (b < 0)
        snprintf(text, sizeof text, "%s.%ld", name, a);
    else
        snprintf(text, sizeof text, "%s.%ld.%ld", name, a, b);
    return text;
}

static inline monohull_buffer take(const char *name) {
    monohull_buffer buffer;
    must(monohull_take(name, &buffer), name);
    return buffer;
}

static inline monohull_buffer make(size_t capacity) {
    monohull_buffer buffer;
    must(monohull_make(capacity, &buffer), "a buffer");
    return buffer;
}

static inline void publish(const char *name, monohull_buffer buffer) {
    must(monohull_publish(name, &buffer), name);
}

/* Publishes a copy of some bytes. */
static inline void publish_copy(const char *name, const void *bytes, size_t length) {
    monohull_buffer copy = make(length);
    if (length)
        memcpy(copy.data, bytes, length);
    copy.len = length;
    publish(name, copy);
}

/* Where part `index` of `parts` ends: behind a byte that is a border. The one before it ended at `start`. */
static inline size_t cut(monohull_buffer text, size_t start, size_t index, size_t parts, int (*is_border)(unsigned char)) {
    size_t ideal = (size_t)((uint64_t)text.len * (index + 1) / parts);
    if (index + 1 == parts)
        return text.len;
    for (size_t at = (ideal > start + 1 ? ideal : start + 1) - 1; at < text.len; at++)
        if (is_border(text.data[at]))
            return at + 1;
    return text.len;
}

/* `value` in decimal at the end of `digits`: where it begins. */
static inline char *decimal(uint64_t value, char digits[20]) {
    char *at = digits + 20;
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    return at;
}

#endif
