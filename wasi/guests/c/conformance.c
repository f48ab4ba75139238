/* A program for WASI that does what its first argument says, and prints what each call gave: the tests of `wasi_conformance` run it here and in
 * Wasmtime, and compare. The argument is a script of cases:
 *
 *     == NAME                          begins a case: it has the directory NAME to itself, which is `$d`
 *     a = open $d "f" creat rw 0       an action of `conformance_actions.c`; keeps a descriptor as `$a`
 *     path_unlink_file $d "f"          any function of WASI with just its parameters, a text counting as two
 *
 * A parameter is a number, a word of WORDS, several of them with `|`, `$` and a variable, `@` (a buffer) or `end` (of the memory), each with `+N`
 * or `-N` behind it, or a text with the escapes \n \0 \" \\ \xNN. `"a"*300` repeats one. After each case the files in its directory are printed. */

#include "conformance.h"

/* -- Functions of WASI --------------------------------------------------------------------------------------------------- */

#define F(name, types, arguments) \
    static I call_##name(const L *v) { return wasi_##name arguments; }
FUNCTIONS
#undef F

static const struct { const char *name; I (*call)(const L *); } calls[] = {
#define F(n, t, a) { #n, call_##n },
    FUNCTIONS
};

static const char *const errors[] = {
    "OK", "E2BIG", "EACCES", "EADDRINUSE", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EAGAIN", "EALREADY", "EBADF", "EBADMSG", "EBUSY", "ECANCELED",
    "ECHILD", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "EDEADLK", "EDESTADDRREQ", "EDOM", "EDQUOT", "EEXIST", "EFAULT", "EFBIG",
    "EHOSTUNREACH", "EIDRM", "EILSEQ", "EINPROGRESS", "EINTR", "EINVAL", "EIO", "EISCONN", "EISDIR", "ELOOP", "EMFILE", "EMLINK", "EMSGSIZE",
    "EMULTIHOP", "ENAMETOOLONG", "ENETDOWN", "ENETRESET", "ENETUNREACH", "ENFILE", "ENOBUFS", "ENODEV", "ENOENT", "ENOEXEC", "ENOLCK",
    "ENOLINK", "ENOMEM", "ENOMSG", "ENOPROTOOPT", "ENOSPC", "ENOSYS", "ENOTCONN", "ENOTDIR", "ENOTEMPTY", "ENOTRECOVERABLE", "ENOTSOCK",
    "ENOTSUP", "ENOTTY", "ENXIO", "EOVERFLOW", "EOWNERDEAD", "EPERM", "EPIPE", "EPROTO", "EPROTONOSUPPORT", "EPROTOTYPE", "ERANGE", "EROFS",
    "ESPIPE", "ESRCH", "ESTALE", "ETIMEDOUT", "ETXTBSY", "EXDEV", "ENOTCAPABLE",
};

/* -- Output -------------------------------------------------------------------------------------------------------------- */

static char line_out[65536];
static size_t used;

void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    used += (size_t)vsnprintf(line_out + used, sizeof line_out - used, format, list);
    va_end(list);
}

void flush(void) {
    for (size_t at = 0; at < used;) {
        I vector[2] = { (I)(line_out + at), (I)(used - at) }, written = 0;
        if (wasi_fd_write(1, (I)vector, 1, (I)&written) != 0)
            break;
        at += (size_t)written;
    }
    used = 0;
}

void say_error(I error) {
    if (error >= 0 && error <= 76)
        say("%s", errors[error]);
    else
        say("error %d", error);
}

/* Bytes as text; of many the first ones, their number and a sum of them all. */
void say_bytes(const uint8_t *bytes, size_t length) {
    say("\"");
    for (size_t i = 0; i < length && i < 80; i++)
        if (bytes[i] >= 32 && bytes[i] < 127)
            say("%c", bytes[i]);
        else
            say("\\x%02x", bytes[i]);
    say("\"");
    if (length > 80) {
        uint32_t sum = 2166136261;
        for (size_t i = 0; i < length; i++)
            sum = (sum ^ bytes[i]) * 16777619;
        say("... %zu bytes, %08x", length, sum);
    }
}

/* -- Words of a line ----------------------------------------------------------------------------------------------------- */

static const struct { const char *word; L value; } WORDS[] = {
    { "follow", 1 }, { "creat", 1 }, { "directory", 2 }, { "excl", 4 }, { "trunc", 8 }, /* of `path_open` */
    { "append", 1 }, { "dsync", 2 }, { "nonblock", 4 }, { "rsync", 8 }, { "sync", 16 }, /* flags of descriptors */
    { "r", 2 }, { "w", 64 }, { "rw", 66 }, { "all", (1 << 30) - 1 },                    /* rights */
    { "set", 0 }, { "cur", 1 }, { "end_of_file", 2 },                                   /* where `seek` begins */
    { "atim", 1 }, { "atim_now", 2 }, { "mtim", 4 }, { "mtim_now", 8 },                 /* which times */
    { "absolute", 1 },                                                                  /* of a clock */
};

static L variables[26];
uint8_t scratch[1 << 17];
L values[32];
size_t count;
L opened;
static uint8_t texts[1 << 16];
static size_t texts_used;

static void wrong(const char *what) {
    say("\nwrong script: %s\n", what);
    flush();
    wasi_proc_exit(99);
}

static L number_of(const char *word) {
    L total = 0;
    if (word[0] == '-')
        return strtoll(word, NULL, 0);
    for (;;) {
        size_t length = strcspn(word, "|+-");
        char *end;
        if (word[0] == '$' && length == 2)
            total |= variables[word[1] - 'a'];
        else if (word[0] == '@' && length == 1)
            total |= (L)(uintptr_t)scratch;
        else if (length == 3 && memcmp(word, "end", 3) == 0)
            total |= (L)__builtin_wasm_memory_size(0) << 16;
        else if (word[0] >= '0' && word[0] <= '9') {
            total |= (L)strtoull(word, &end, 0);
            if (end != word + length)
                wrong(word);
        } else {
            size_t i = 0, all = sizeof WORDS / sizeof *WORDS;
            while (i < all && (strlen(WORDS[i].word) != length || memcmp(WORDS[i].word, word, length) != 0))
                i++;
            if (i == all)
                wrong(word);
            total |= WORDS[i].value;
        }
        word += length;
        if (*word == '+' || *word == '-')
            return total + strtoll(word, NULL, 0);
        if (*word == 0)
            return total;
        word++;
    }
}

static int hex(char digit) { return digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10; }

/* A text between quotes: its bytes lie in `texts`. Where the line goes on. */
static char *text_of(char *at) {
    uint8_t *start = texts + texts_used, *to = start;
    for (at++; *at != '"'; at++) {
        if (*at == 0)
            wrong("a text without an end");
        if (*at != '\\') {
            *to++ = (uint8_t)*at;
            continue;
        }
        switch (*++at) {
        case 'n': *to++ = '\n'; break;
        case '0': *to++ = 0; break;
        case 'x': *to++ = (uint8_t)(hex(at[1]) << 4 | hex(at[2])); at += 2; break;
        default: *to++ = (uint8_t)*at;
        }
    }
    size_t length = (size_t)(to - start), times = 1;
    if (*++at == '*')
        times = strtoul(at + 1, &at, 10);
    for (size_t i = 1; i < times; i++)
        memcpy(start + i * length, start, length);
    texts_used += length * times;
    values[count++] = (L)(uintptr_t)start;
    values[count++] = (L)(length * times);
    return at;
}

/* -- Scripts ------------------------------------------------------------------------------------------------------------- */

/* Calls the function of a name, if there is one. */
static bool call(const char *name) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return say_error(calls[i].call(values)), true;
    return false;
}

static void run_line(char *line) {
    say("%s -> ", line);
    L *variable = NULL;
    if (line[1] == ' ' && line[2] == '=')
        variable = &variables[line[0] - 'a'], line += 4;
    char *name = line, *at = line + strcspn(line, " ");
    count = texts_used = 0;
    while (*at) {
        *at++ = 0;
        if (*at == '"') {
            at = text_of(at);
        } else {
            char *word = at;
            at += strcspn(at, " ");
            char kept = *at;
            *at = 0;
            values[count++] = number_of(word);
            *at = kept;
        }
    }
    opened = -1;
    if (!act(name) && !call(name))
        wrong(name);
    if (variable)
        *variable = opened;
    say("\n"), flush();
}

int main(int argc, char **argv) {
    char *line = argc > 1 ? argv[1] : NULL, *next, *directory = NULL;
    for (; line; line = next) {
        if ((next = strchr(line, '\n')))
            *next++ = 0;
        if (strncmp(line, "== ", 3) == 0) {
            if (directory)
                tree(3, directory, "");
            for (I fd = 4; fd < 64; fd++)
                wasi_fd_close(fd);
            say("%s\n", line), flush();
            directory = line + 3;
            I fd = -1, length = (I)strlen(directory);
            wasi_path_create_directory(3, (I)directory, length);
            wasi_path_open(3, 0, (I)directory, length, 2, 2, (1 << 30) - 1, 0, (I)&fd);
            for (int i = 0; i < 26; i++)
                variables[i] = -1;
            variables['d' - 'a'] = fd;
        } else if (*line) {
            run_line(line);
        }
    }
    if (directory)
        tree(3, directory, "");
}
