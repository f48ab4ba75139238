/* Word count, as the functions `word-count-…` of `examples` have it in Rust, with the same slots: `--role=split`, `map`, `reduce`, `merge`. */
#include "flow.h"

static int is_space(unsigned char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* -- Counts of words: open addressing, at most half full. ----------------------------------------------------------------- */

struct count {
    const unsigned char *word;
    uint32_t length;
    uint64_t hash, count;
};

static struct count *counts;
static size_t used, room;

static uint64_t hash_of(const unsigned char *word, size_t length) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ word[i]) * 0x100000001b3;
    return hash;
}

static struct count *place(const unsigned char *word, size_t length, uint64_t hash) {
    size_t at = (size_t)(hash >> 20) & (room - 1);
    while (counts[at].word &&
           (counts[at].hash != hash || counts[at].length != length || memcmp(counts[at].word, word, length) != 0))
        at = (at + 1) & (room - 1);
    return &counts[at];
}

static void grow(void) {
    struct count *old = counts;
    size_t old_room = room;
    room = room ? room * 2 : 1024;
    counts = calloc(room, sizeof *counts);
    need(counts != NULL, "no memory for words");
    for (size_t i = 0; i < old_room; i++)
        if (old[i].word)
            *place(old[i].word, old[i].length, old[i].hash) = old[i];
    free(old);
}

static void add(const unsigned char *word, size_t length, uint64_t count) {
    if (used * 2 >= room)
        grow();
    uint64_t hash = hash_of(word, length);
    struct count *at = place(word, length, hash);
    if (!at->word) {
        *at = (struct count){ word, (uint32_t)length, hash, 0 };
        used++;
    }
    at->count += count;
}

/* -- Records: count (64 bits), length (32 bits), the word. ----------------------------------------------------------------- */

static void write_record(monohull_buffer *to, const struct count *count) {
    memcpy(to->data + to->len, &count->count, 8);
    memcpy(to->data + to->len + 8, &count->length, 4);
    memcpy(to->data + to->len + 12, count->word, count->length);
    to->len += 12 + (size_t)count->length;
}

static void each_record(monohull_buffer records, void (*each)(const unsigned char *, size_t, uint64_t)) {
    for (size_t at = 0; at < records.len;) {
        uint64_t count;
        uint32_t length;
        need(records.len - at >= 12, "a record that is cut short");
        memcpy(&count, records.data + at, 8);
        memcpy(&length, records.data + at + 8, 4);
        need(records.len - at - 12 >= length, "a record that is cut short");
        each(records.data + at + 12, length, count);
        at += 12 + (size_t)length;
    }
}

static size_t shard(const struct count *count, size_t shards) {
    return shards <= 1 ? 0 : (size_t)((count->hash >> 32) % shards);
}

/* Publishes the counts of each shard. */
static void publish_counts(size_t shards, const char *name, long from) {
    for (size_t of = 0; of < shards; of++) {
        size_t bytes = 0;
        for (size_t i = 0; i < room; i++)
            if (counts[i].word && shard(&counts[i], shards) == of)
                bytes += 12 + (size_t)counts[i].length;
        monohull_buffer records = make(bytes);
        for (size_t i = 0; i < room; i++)
            if (counts[i].word && shard(&counts[i], shards) == of)
                write_record(&records, &counts[i]);
        publish(from < 0 ? slot(name, (long)monohull_instance_index(), -1) : slot(name, (long)of, from), records);
    }
}

/* -- Roles ---------------------------------------------------------------------------------------------------------------- */

static void split(size_t parts) {
    monohull_buffer text = take("text");
    size_t first = 0, start = 0;
    for (size_t part = 0; part < parts; part++) {
        size_t end = cut(text, start, part, parts, is_space);
        if (part == 0)
            first = end;
        else
            publish_copy(slot("part", (long)part, -1), text.data + start, end - start);
        start = end;
    }
    text.len = first;
    publish("part.0", text);
}

static void map(size_t shards) {
    long me = (long)monohull_instance_index();
    monohull_buffer text = take(slot("part", me, -1));
    for (size_t at = 0; at < text.len;) {
        size_t start = at;
        while (at < text.len && !is_space(text.data[at]))
            at++;
        if (at > start)
            add(text.data + start, at - start, 1);
        at++;
    }
    publish_counts(shards, "count", me);
}

static void reduce(size_t parts) {
    long me = (long)monohull_instance_index();
    for (size_t part = 0; part < parts; part++)
        each_record(take(slot("count", me, (long)part)), add);
    publish_counts(1, "sum", -1);
}

static int by_rank(const void *left, const void *right) {
    const struct count *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    int order = memcmp(a->word, b->word, a->length < b->length ? a->length : b->length);
    return order ? order : a->length < b->length ? -1 : a->length > b->length;
}

static void append(const unsigned char *word, size_t length, uint64_t count) {
    if (used == room) {
        room = room ? room * 2 : 1024;
        counts = realloc(counts, room * sizeof *counts);
        need(counts != NULL, "no memory for words");
    }
    counts[used++] = (struct count){ word, (uint32_t)length, 0, count };
}

static void merge(size_t parts) {
    for (size_t part = 0; part < parts; part++)
        each_record(take(slot("sum", (long)part, -1)), append);
    qsort(counts, used, sizeof *counts, by_rank);
    size_t bytes = 0;
    for (size_t i = 0; i < used; i++)
        bytes += 22 + (size_t)counts[i].length;
    monohull_buffer lines = make(bytes);
    for (size_t i = 0; i < used; i++) {
        char digits[20], *begin = decimal(counts[i].count, digits);
        size_t length = (size_t)(digits + 20 - begin);
        unsigned char *to = lines.data + lines.len;
        memcpy(to, begin, length);
        to[length] = ' ';
        memcpy(to + length + 1, counts[i].word, counts[i].length);
        to[length + 1 + counts[i].length] = '\n';
        lines.len += length + 2 + counts[i].length;
    }
    publish("counts", lines);
}

int main(int count, char **arguments) {
    static const struct role roles[] = {{"split", split}, {"map", map}, {"reduce", reduce}, {"merge", merge}};
    play(count, arguments, roles, sizeof roles / sizeof *roles);
    return 0;
}
