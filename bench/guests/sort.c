/* Sorting of lines of whole numbers, as the functions `parallel-sort-…` of `examples` have it in Rust, with the same slots: `--role=split`, `sort`,
 * `merge`, `join`. */
#include "flow.h"

#define SAMPLES 64

static int is_newline(unsigned char byte) {
    return byte == '\n';
}

/* By merging runs of doubled length: libc's `qsort` here is made for little memory, and takes many times as long. */
static void sort_values(uint64_t *values, size_t count) {
    uint64_t *from = values, *to = malloc((count + 1) * sizeof *to), *room = to;
    need(to != NULL, "no memory for sorting");
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t start = 0; start < count; start += 2 * run) {
            size_t middle = start + run < count ? start + run : count, end = middle + run < count ? middle + run : count;
            size_t left = start, right = middle;
            for (size_t at = start; at < end; at++)
                to[at] = left < middle && (right == end || from[left] <= from[right]) ? from[left++] : from[right++];
        }
        uint64_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != values)
        memcpy(values, from, count * sizeof *values);
    free(room);
}

/* The number of a line, and where the next one begins. */
static uint64_t parsed(monohull_buffer text, size_t *at) {
    uint64_t value = 0;
    size_t start = *at;
    for (; *at < text.len && text.data[*at] != '\n'; ++*at) {
        unsigned digit = text.data[*at] - (unsigned)'0';
        need(digit < 10 && value <= (UINT64_MAX - digit) / 10, "a line that is no number");
        value = value * 10 + digit;
    }
    need(*at > start, "a line that is no number");
    ++*at;
    return value;
}

/* Where values are cut for the mergers, from a sample of the text. */
static void choose(monohull_buffer text, size_t parts, uint64_t *cuts) {
    size_t wanted = parts * SAMPLES, found = 0, step = text.len / wanted > 0 ? text.len / wanted : 1;
    uint64_t *sample = malloc((wanted + 1) * sizeof *sample);
    need(sample != NULL, "no memory for a sample");
    for (size_t start = 0; start < text.len && found < wanted; start += step) {
        size_t at = start;
        while (at < text.len && text.data[at] != '\n')
            at++;
        if (++at < text.len)
            sample[found++] = parsed(text, &at);
    }
    sort_values(sample, found);
    for (size_t cut = 1; cut < parts; cut++)
        cuts[cut - 1] = found ? sample[found * cut / parts] : UINT64_MAX;
    free(sample);
}

static void split(size_t parts) {
    monohull_buffer text = take("lines");
    uint64_t *cuts = malloc(parts * sizeof *cuts);
    need(cuts != NULL, "no memory for cuts");
    choose(text, parts, cuts);
    size_t first = 0, start = 0;
    for (size_t part = 0; part < parts; part++) {
        publish_copy(slot("job", (long)part, -1), cuts, (parts - 1) * sizeof *cuts);
        size_t end = cut(text, start, part, parts, is_newline);
        if (part == 0)
            first = end;
        else
            publish_copy(slot("part", (long)part, -1), text.data + start, end - start);
        start = end;
    }
    text.len = first;
    publish("part.0", text);
}

static void sort(size_t parts) {
    long me = (long)monohull_instance_index();
    monohull_buffer text = take(slot("part", me, -1)), job = take(slot("job", me, -1));
    size_t lines = 1, count = 0, start = 0;
    for (size_t at = 0; at < text.len; at++)
        lines += text.data[at] == '\n';
    monohull_buffer run = make(lines * sizeof(uint64_t));
    uint64_t *values = (uint64_t *)run.data;
    for (size_t at = 0; at < text.len;)
        values[count++] = parsed(text, &at);
    sort_values(values, count);
    size_t first = 0;
    for (size_t piece = 0; piece < parts; piece++) {
        size_t end = count;
        if (piece + 1 < parts) {
            uint64_t limit;
            memcpy(&limit, job.data + piece * sizeof limit, sizeof limit);
            for (size_t low = start, high = count; low < high || (end = low, 0);) {
                size_t middle = low + (high - low) / 2;
                if (values[middle] < limit)
                    low = middle + 1;
                else
                    high = middle;
            }
        }
        if (piece == 0)
            first = end;
        else
            publish_copy(slot("piece", (long)piece, me), values + start, (end - start) * sizeof *values);
        start = end;
    }
    run.len = first * sizeof *values;
    publish(slot("piece", 0, me), run);
}

static void merge(size_t parts) {
    long me = (long)monohull_instance_index();
    monohull_buffer *runs = malloc(parts * sizeof *runs);
    size_t *at = calloc(parts, sizeof *at), numbers = 0;
    need(runs && at, "no memory for runs");
    for (size_t part = 0; part < parts; part++) {
        runs[part] = take(slot("piece", me, (long)part));
        numbers += runs[part].len / sizeof(uint64_t);
    }
    /* A number and its newline have at most so many bytes. */
    monohull_buffer text = make(numbers * 21);
    for (; numbers > 0; numbers--) {
        size_t least = parts;
        uint64_t value = 0;
        for (size_t part = 0; part < parts; part++) {
            if (at[part] * sizeof value == runs[part].len)
                continue;
            uint64_t next = ((const uint64_t *)runs[part].data)[at[part]];
            if (least == parts || next < value) {
                least = part;
                value = next;
            }
        }
        at[least]++;
        char digits[20], *begin = decimal(value, digits);
        size_t length = (size_t)(digits + 20 - begin);
        memcpy(text.data + text.len, begin, length);
        text.data[text.len + length] = '\n';
        text.len += length + 1;
    }
    publish(slot("text", me, -1), text);
}

static void join(size_t parts) {
    monohull_buffer *texts = malloc(parts * sizeof *texts);
    need(texts != NULL, "no memory for texts");
    size_t bytes = 0;
    for (size_t part = 0; part < parts; part++) {
        texts[part] = take(slot("text", (long)part, -1));
        bytes += texts[part].len;
    }
    if (parts == 1) {
        publish("sorted", texts[0]);
        return;
    }
    monohull_buffer sorted = make(bytes);
    for (size_t part = 0; part < parts; part++) {
        memcpy(sorted.data + sorted.len, texts[part].data, texts[part].len);
        sorted.len += texts[part].len;
    }
    publish("sorted", sorted);
}

int main(int count, char **arguments) {
    static const struct role roles[] = {{"split", split}, {"sort", sort}, {"merge", merge}, {"join", join}};
    play(count, arguments, roles, sizeof roles / sizeof *roles);
    return 0;
}
