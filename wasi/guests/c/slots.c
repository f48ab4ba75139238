/* A large slot from one program to another, for a benchmark: `--role=give` fills and publishes it, `--role=sum` takes and sums it. Both move its
 * pages. It goes back afterwards, so that every turn is as the first.
 *
 * The time is from before it is published until it has been summed, and is printed by `sum`: the median of all turns, in nanoseconds. */
#include <errno.h>
#include <monohull-wasi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURNS 21
/* Tables of pages are moved as a whole where both places begin with this. */
#define ALIGNMENT (2 << 20)

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void must(int error, const char *what) {
    if (error) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static void publish(const char *name, void *bytes, size_t length) {
    must(monohull_slot_publish_moved(name, strlen(name), bytes, length, 0), name);
}

static void take(const char *name, void *to, size_t length) {
    struct monohull_slot slot;
    must(monohull_slot_take(name, strlen(name), 1, &slot), name);
    must(monohull_slot_move(slot.handle, to, length), name);
}

/* Functions of other kinds have such instructions without asking for them. */
typedef uint64_t pair __attribute__((vector_size(16)));

__attribute__((target("simd128"))) static uint64_t sum(const uint64_t *words, size_t count) {
    const pair *pairs = (const pair *)words;
    pair a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    for (size_t i = 0; i < count / 2; i += 4) {
        a += pairs[i];
        b += pairs[i + 1];
        c += pairs[i + 2];
        d += pairs[i + 3];
    }
    a += b + c + d;
    return a[0] + a[1];
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void give(uint64_t *words, size_t length) {
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < length / 8; i++)
            words[i] = turn + 1;
        words[1] = 0;
        words[0] = now();
        publish("given", words, length);
        take("back", words, length);
    }
}

static void sum_given(uint64_t *words, size_t length) {
    uint64_t times[TURNS];
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        take("given", words, length);
        uint64_t total = sum(words, length / 8);
        times[turn] = now() - words[0];
        if (total - words[0] != (turn + 1) * (length / 8 - 2)) {
            fprintf(stderr, "turn %u: another sum\n", (unsigned)turn);
            exit(1);
        }
        publish("back", words, length);
    }
    qsort(times, TURNS, sizeof *times, by_size);
    printf("%llu\n", (unsigned long long)times[TURNS / 2]);
}

int main(int count, char **arguments) {
    size_t length = 0;
    const char *role = "";
    for (int i = 1; i < count; i++) {
        if (strncmp(arguments[i], "--bytes=", 8) == 0)
            length = strtoul(arguments[i] + 8, NULL, 10);
        else if (strncmp(arguments[i], "--role=", 7) == 0)
            role = arguments[i] + 7;
    }
    uint64_t *words = length && length % 64 == 0 ? aligned_alloc(ALIGNMENT, length) : NULL;
    if (!words)
        must(EINVAL, "--bytes");
    if (strcmp(role, "give") == 0)
        give(words, length);
    else if (strcmp(role, "sum") == 0)
        sum_given(words, length);
    else
        must(EINVAL, "--role");
    return 0;
}
