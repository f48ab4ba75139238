/* What scripts of `conformance.c` do with more than the numbers of a call. */

#include "conformance.h"

static const char *const types[] = { "unknown", "block", "character", "directory", "file", "datagrams", "stream", "link" };

/* -- Actions ------------------------------------------------------------------------------------------------------------- */

#define V(type, index) ((type)values[index])

/* Buffers for values from `first` on: of so many bytes, or texts. */
static I vectors[32][2];

static I buffers(size_t first) {
    I number = 0;
    uint8_t *at = scratch;
    for (size_t i = first; i < count; i++, number++) {
        vectors[number][0] = (I)(uintptr_t)at;
        vectors[number][1] = V(I, i);
        at += values[i];
    }
    return number;
}

static I given(size_t first) {
    I number = 0;
    for (size_t i = first; i + 1 < count; i += 2, number++) {
        vectors[number][0] = V(I, i);
        vectors[number][1] = V(I, i + 1);
    }
    return number;
}

static void say_read(I error, I bytes, I number) {
    say_error(error);
    if (error != 0)
        return;
    say(" %d", bytes);
    for (I i = 0; i < number; i++) {
        I part = bytes < vectors[i][1] ? bytes : vectors[i][1];
        say(" ");
        say_bytes((uint8_t *)(uintptr_t)vectors[i][0], (size_t)part);
        bytes -= part;
    }
}

static void do_read(void) {
    I number = buffers(1), bytes = 0, error = wasi_fd_read(V(I, 0), (I)vectors, number, (I)&bytes);
    say_read(error, bytes, number);
}

static void do_pread(void) {
    I number = buffers(2), bytes = 0, error = wasi_fd_pread(V(I, 0), (I)vectors, number, values[1], (I)&bytes);
    say_read(error, bytes, number);
}

static void say_number(I error, L number) {
    say_error(error);
    if (error == 0)
        say(" %lld", number);
}

static void do_write(void) {
    I bytes = 0, number = given(1), error = wasi_fd_write(V(I, 0), (I)vectors, number, (I)&bytes);
    say_number(error, bytes);
}

static void do_pwrite(void) {
    I bytes = 0, number = given(2), error = wasi_fd_pwrite(V(I, 0), (I)vectors, number, values[1], (I)&bytes);
    say_number(error, bytes);
}

/* Leaves out what has been transferred; how many buffers there are yet. */
static I without(I number, I bytes) {
    I from = 0;
    while (from < number && bytes >= vectors[from][1])
        bytes -= vectors[from++][1];
    memmove(vectors, vectors + from, (size_t)(number - from) * sizeof *vectors);
    vectors[0][0] += bytes;
    vectors[0][1] -= bytes;
    return number - from;
}

/* As C libraries do where less is transferred than asked for. */
static void all_of(I (*transfer)(I, I, I, I), I number, bool prints) {
    I total = 0, bytes = 0, error = 0, all = number, kept[32][2];
    memcpy(kept, vectors, sizeof kept);
    do {
        error = transfer(V(I, 0), (I)vectors, number, (I)&bytes);
        if (error != 0)
            break;
        total += bytes;
        number = without(number, bytes);
    } while (bytes > 0 && number > 0);
    memcpy(vectors, kept, sizeof kept);
    if (prints)
        say_read(error, total, all);
    else
        say_number(error, total);
}

static void do_readall(void) { all_of(wasi_fd_read, buffers(1), true); }
static void do_writeall(void) { all_of(wasi_fd_write, given(1), false); }

static void do_seek(void) {
    L position = 0;
    I error = wasi_fd_seek(V(I, 0), values[1], V(I, 2), (I)&position);
    say_number(error, position);
}

static void do_tell(void) {
    L position = 0;
    I error = wasi_fd_tell(V(I, 0), (I)&position);
    say_number(error, position);
}

/* DIRECTORY PATH OFLAGS RIGHTS FDFLAGS; the variable is -1 after an error. */
static void do_open(void) {
    I fd = -1;
    I error = wasi_path_open(V(I, 0), 1, V(I, 1), V(I, 2), V(I, 3), values[4], (1 << 30) - 1, V(I, 5), (I)&fd);
    say_error(error);
    opened = error ? -1 : fd;
}

static void do_fdstat(void) {
    uint8_t stat[24] = { 0 };
    I error = wasi_fd_fdstat_get(V(I, 0), (I)stat);
    say_error(error);
    if (error == 0)
        say(" %s flags %d", types[stat[0] & 7], stat[2]);
}

static void do_rights(void) {
    L stat[3] = { 0 };
    I error = wasi_fd_fdstat_get(V(I, 0), (I)stat);
    say_error(error);
    if (error == 0)
        say(" %llx %llx", stat[1], stat[2]);
}

/* Numbers of devices and files differ, and so do the sizes and links of directories. */
static void say_stat(I error, const L *stat) {
    int type = (int)(stat[2] & 7);
    say_error(error);
    if (error == 0 && type == 3)
        say(" directory");
    else if (error == 0)
        say(" %s links %lld size %lld", types[type], stat[3], stat[4]);
}

static void do_stat(void) {
    L stat[8] = { 0 };
    I error = wasi_fd_filestat_get(V(I, 0), (I)stat);
    say_stat(error, stat);
}

static void do_pathstat(void) {
    L stat[8] = { 0 };
    I error = wasi_path_filestat_get(V(I, 0), 1, V(I, 1), V(I, 2), (I)stat);
    say_stat(error, stat);
}

static L now(I clock) {
    L time = 0;
    return wasi_clock_time_get(clock, 0, (I)&time) == 0 ? time : 0;
}

static void say_times(I error, const L *stat) {
    say_error(error);
    for (int i = 5; i < 7 && error == 0; i++) {
        L ago = now(0) - stat[i];
        if (ago > -60000000000 && ago < 600000000000)
            say(" now");
        else
            say(" %lld", stat[i]);
    }
}

static void do_times(void) {
    L stat[8] = { 0 };
    I error = wasi_fd_filestat_get(V(I, 0), (I)stat);
    say_times(error, stat);
}

static void do_pathtimes(void) {
    L stat[8] = { 0 };
    I error = wasi_path_filestat_get(V(I, 0), 1, V(I, 1), V(I, 2), (I)stat);
    say_times(error, stat);
}

/* Whether two descriptors are of the same file, by its number. */
static void do_same(void) {
    L one[8] = { 0 }, other[8] = { 0 };
    if (wasi_fd_filestat_get(V(I, 0), (I)one) || wasi_fd_filestat_get(V(I, 1), (I)other))
        say("gone");
    else
        say(one[0] == other[0] && one[1] == other[1] ? "the same" : "different");
}

static void do_prestat(void) {
    I stat[2] = { 0 }, error = wasi_fd_prestat_get(V(I, 0), (I)stat);
    say_error(error);
    if (error != 0)
        return;
    say(" kind %d length %d ", stat[0] & 0xff, stat[1]);
    error = wasi_fd_prestat_dir_name(V(I, 0), (I)scratch, stat[1]);
    say_error(error);
    say(" ");
    say_bytes(scratch, (size_t)stat[1]);
}

static void do_readlink(void) {
    I length = 0, error = wasi_path_readlink(V(I, 0), V(I, 1), V(I, 2), (I)scratch, V(I, 3), (I)&length);
    say_error(error);
    if (error == 0)
        say(" "), say_bytes(scratch, (size_t)length);
}

/* -- Directories --------------------------------------------------------------------------------------------------------- */

typedef struct { char name[264]; uint8_t type; L next; } entry_t;
static entry_t entries[512];

/* The entries from a cookie on that a buffer of so many bytes has, whole ones. */
static I one_read(I fd, I room, L cookie, size_t *found, I *bytes) {
    static uint8_t buffer[1 << 16];
    I error = wasi_fd_readdir(fd, (I)buffer, room, cookie, (I)bytes);
    *found = 0;
    for (size_t at = 0; error == 0 && at + 24 <= (size_t)*bytes;) {
        entry_t *entry = &entries[*found];
        uint32_t length;
        memcpy(&entry->next, buffer + at, 8);
        memcpy(&length, buffer + at + 16, 4);
        entry->type = buffer[at + 20];
        if (at + 24 + length > (size_t)*bytes || *found == sizeof entries / sizeof *entries)
            break;
        memcpy(entry->name, buffer + at + 24, length);
        entry->name[length] = 0;
        at += 24 + length;
        ++*found;
    }
    return error;
}

/* All entries, by reads with a buffer of so many bytes. */
static I all_entries(I fd, I room, L cookie, entry_t *to, size_t *number) {
    for (*number = 0;;) {
        size_t found;
        I bytes = 0, error = one_read(fd, room, cookie, &found, &bytes);
        if (error != 0)
            return error;
        for (size_t i = 0; i < found; i++)
            to[(*number)++] = entries[i];
        if (found > 0)
            cookie = entries[found - 1].next;
        if (bytes < room || found == 0)
            return 0;
    }
}

static int by_name(const void *a, const void *b) { return strcmp(((const entry_t *)a)->name, ((const entry_t *)b)->name); }

static void say_entries(I error, entry_t *list, size_t number) {
    say_error(error);
    qsort(list, number, sizeof *list, by_name);
    say(" %zu:", number);
    for (size_t i = 0; i < number; i++)
        say(" %s%s", list[i].name, list[i].type == 3 ? "/" : list[i].type == 4 ? "" : types[list[i].type & 7]);
}

static entry_t listed[512], rest[512];

/* DIRECTORY ROOM [COOKIE] */
static void do_list(void) {
    size_t number;
    I error = all_entries(V(I, 0), V(I, 1), count > 2 ? values[2] : 0, listed, &number);
    say_entries(error, listed, number);
}

/* DIRECTORY ROOM COOKIE: how many bytes one read gives, and how many entries are whole in them. */
static void do_readdir(void) {
    size_t found;
    I bytes = 0, error = one_read(V(I, 0), V(I, 1), values[2], &found, &bytes);
    say_error(error);
    if (error == 0)
        say(" %s, %zu whole", bytes == V(I, 1) ? "full" : "not full", found);
}

/* DIRECTORY ROOM: whether reading from the cookie of each entry gives just those behind it. */
static void do_resume(void) {
    size_t number, left;
    I error = all_entries(V(I, 0), 1 << 15, 0, listed, &number);
    say_error(error);
    for (size_t i = 0; error == 0 && i < number; i++) {
        error = all_entries(V(I, 0), V(I, 1), listed[i].next, rest, &left);
        bool same = left == number - i - 1;
        for (size_t j = 0; same && j < left; j++)
            same = strcmp(rest[j].name, listed[i + 1 + j].name) == 0 && rest[j].type == listed[i + 1 + j].type;
        if (error != 0 || !same) {
            say(" wrong behind entry %zu", i);
            return;
        }
    }
    say(" %zu entries", number);
}

/* The files beneath a directory, with what is in them. */
void tree(I at, const char *path, const char *shown) {
    I fd, error = wasi_path_open(at, 0, (I)path, (I)strlen(path), 2, 2, (1 << 30) - 1, 0, (I)&fd);
    size_t number = 0;
    entry_t *list = malloc(sizeof listed);
    if (error == 0)
        error = all_entries(fd, 4096, 0, list, &number);
    if (error != 0) {
        say("  %s: ", shown), say_error(error), say("\n"), flush();
        free(list);
        return;
    }
    qsort(list, number, sizeof *list, by_name);
    for (size_t i = 0; i < number; i++) {
        if (strcmp(list[i].name, ".") == 0 || strcmp(list[i].name, "..") == 0)
            continue;
        char name[600];
        snprintf(name, sizeof name, "%s%s%s", shown, *shown ? "/" : "", list[i].name);
        if (list[i].type == 3) {
            say("  %s/\n", name), flush();
            if (strlen(name) < 300)
                tree(fd, list[i].name, name);
            continue;
        }
        I file, bytes = 0, vector[2] = { (I)scratch, sizeof scratch };
        say("  %s ", name);
        error = wasi_path_open(fd, 0, (I)list[i].name, (I)strlen(list[i].name), 0, 2, 0, 0, (I)&file);
        if (error == 0) {
            error = wasi_fd_read(file, (I)vector, 1, (I)&bytes);
            wasi_fd_close(file);
        }
        if (error != 0)
            say_error(error);
        else
            say_bytes(scratch, (size_t)bytes);
        say("\n"), flush();
    }
    wasi_fd_close(fd);
    free(list);
}

/* -- Clocks, random bytes, polls, the environment ------------------------------------------------------------------------ */

static void do_clock(void) {
    L time = 0;
    I error = wasi_clock_time_get(V(I, 0), values[1], (I)&time);
    say_error(error);
    if (error == 0)
        say(" %s", time > 1600000000000000000 && time < 4000000000000000000 ? "since 1970" : time > 0 ? "positive" : "not positive");
}

static void do_resolution(void) {
    L time = 0;
    I error = wasi_clock_res_get(V(I, 0), (I)&time);
    say_error(error);
    if (error == 0)
        say(" %s", time > 0 && time <= 1000000000 ? "a second or less" : "out of range");
}

/* CLOCK: whether it never went back in a thousand looks. */
static void do_forward(void) {
    L last = now(V(I, 0)), back = 0;
    for (int i = 0; i < 1000; i++) {
        L next = now(V(I, 0));
        back += next < last;
        last = next;
    }
    say("%lld back", back);
}

static L marked;
static void do_mark(void) { marked = now(1); }
static void do_elapsed(void) { say(now(1) - marked >= values[0] ? "yes" : "no"); }

/* BYTES: whether more than a quarter of the values a byte can have are there. */
static void do_random(void) {
    memset(scratch, 0, sizeof scratch);
    I error = wasi_random_get((I)scratch, V(I, 0));
    bool seen[256] = { false };
    size_t different = 0;
    for (L i = 0; i < values[0]; i++)
        if (!seen[scratch[i]])
            seen[scratch[i]] = true, different++;
    say_error(error);
    say(different > 64 ? " random" : values[0] < 256 ? "" : " not random");
    say(scratch[values[0]] ? ", too far" : "");
}

/* TAG WHAT TIMEOUT FLAGS of each: `0 CLOCK TIMEOUT FLAGS`, `1 DESCRIPTOR 0 0` to read, `2 DESCRIPTOR 0 0` to write. */
static void do_poll(void) {
    static L subscriptions[8][6], events[8][4];
    I number = 0, happened = 0;
    memset(subscriptions, 0, sizeof subscriptions);
    memset(events, 0, sizeof events);
    for (size_t i = 0; i + 3 < count; i += 4, number++) {
        L *subscription = subscriptions[number];
        subscription[0] = number + 100;
        subscription[1] = values[i];
        subscription[2] = V(uint32_t, i + 1);
        subscription[3] = values[i + 2];
        subscription[5] = values[i + 3];
    }
    I error = wasi_poll_oneoff((I)subscriptions, (I)events, number, (I)&happened);
    say_error(error);
    for (I which = 0; error == 0 && which < number; which++)
        for (I i = 0; i < happened; i++)
            if (events[i][0] == which + 100) {
                say(", %d: type %d ", which, (int)(events[i][1] >> 16 & 0xff));
                say_error((I)(events[i][1] & 0xffff));
                /* Of files only: Wasmtime's number of bytes says nothing of anything else. */
                if ((events[i][1] >> 16 & 0xff) != 0)
                    say(events[i][2] ? " ready" : " empty"), say(" flags %lld", events[i][3] & 0xffff);
            }
}

static void say_texts(I error, I number, I bytes, I (*get)(I, I), I from) {
    say_error(error);
    say(" %d texts, ", number);
    char **list = calloc((size_t)number + 1, sizeof *list), *text = malloc((size_t)bytes + 1);
    say_error(get((I)list, (I)text));
    for (I i = from; i < number; i++)
        say(" "), say_bytes((uint8_t *)list[i], strlen(list[i]));
    /* One behind the other, each with its end. */
    say(number == 0 || list[number - 1] + strlen(list[number - 1]) + 1 == text + bytes ? ", whole" : ", not whole");
}

static void do_args(void) {
    I number = 0, bytes = 0, error = wasi_args_sizes_get((I)&number, (I)&bytes);
    say_texts(error, number, bytes, wasi_args_get, 2);
}

static void do_environ(void) {
    I number = 0, bytes = 0, error = wasi_environ_sizes_get((I)&number, (I)&bytes);
    say_texts(error, number, bytes, wasi_environ_get, 0);
}

/* -- Ends ---------------------------------------------------------------------------------------------------------------- */

static void do_exit(void) { flush(), wasi_proc_exit(V(I, 0)); }
static void do_unreachable(void) { flush(), __builtin_trap(); }

static volatile I zero;
static void do_divide(void) { flush(), say("%d", 1 / zero); }
static void do_overflow(void) { flush(), say("%d", (I)0x80000000 / (zero - 1)); }
static void do_outside(void) { flush(), say("%d", *(volatile I *)(uintptr_t)(values[0])); }

static __attribute__((noinline)) I deeper(I depth) { return zero ? depth : deeper(depth + 1) + zero; }
static void do_deep(void) { flush(), say("%d", deeper(0)); }

static void do_indirect(void) {
    void (*volatile function)(L) = (void (*)(L))(uintptr_t)values[0];
    flush(), function(0);
}

static void do_convert(void) {
    volatile double value = (double)zero / (double)zero;
    I result;
    flush();
    __asm__ volatile("local.get %1\ni32.trunc_f64_s\nlocal.set %0" : "=r"(result) : "r"(value));
    say("%d", result);
}

static void do_number(void) { say("%lld", values[0]); }

static const struct { const char *name; void (*run)(void); } actions[] = {
    { "args", do_args }, { "clock", do_clock }, { "convert", do_convert }, { "deep", do_deep }, { "divide", do_divide }, { "elapsed", do_elapsed },
    { "environ", do_environ }, { "exit", do_exit }, { "fdstat", do_fdstat }, { "forward", do_forward }, { "indirect", do_indirect },
    { "list", do_list }, { "mark", do_mark }, { "number", do_number }, { "open", do_open }, { "outside", do_outside },
    { "overflow", do_overflow }, { "pathstat", do_pathstat }, { "pathtimes", do_pathtimes }, { "poll", do_poll }, { "pread", do_pread },
    { "prestat", do_prestat }, { "pwrite", do_pwrite }, { "random", do_random }, { "read", do_read }, { "readall", do_readall },
    { "readdir", do_readdir }, { "readlink", do_readlink }, { "resolution", do_resolution }, { "resume", do_resume }, { "rights", do_rights },
    { "same", do_same }, { "seek", do_seek }, { "stat", do_stat }, { "tell", do_tell }, { "times", do_times }, { "unreachable", do_unreachable },
    { "write", do_write }, { "writeall", do_writeall },
};

bool act(const char *name) {
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(actions[i].name, name) == 0)
            return actions[i].run(), true;
    return false;
}
