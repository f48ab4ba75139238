/* One link of a chain, as the function `chain-link` of `examples` has it in Rust: `--link=`, `--links=`, `--bytes=`.
 *
 *   | checksum (64 bits) | hops (64 bits) | content … |
 *
 * A link has to read all of it to get the checksum right. */
#include "flow.h"

#define HEADER 16
#define GOLDEN 0x9e3779b97f4a7c15

static uint64_t turned(uint64_t value, int by) {
    return value << by | value >> (64 - by);
}

static uint64_t checksum(uint64_t hops, const unsigned char *content, size_t length) {
    uint64_t sums[4] = { hops, hops, hops, hops }, more[4] = { 0 };
    size_t at = 0;
    for (; at + 32 <= length; at += 32)
        for (int lane = 0; lane < 4; lane++) {
            uint64_t word;
            memcpy(&word, content + at + 8 * lane, sizeof word);
            sums[lane] += word;
            more[lane] += sums[lane];
        }
    uint64_t sum = length;
    for (; at < length; at++)
        sum = turned(sum, 8) ^ content[at];
    for (int lane = 0; lane < 4; lane++)
        sum = turned((sum ^ sums[lane]) * GOLDEN, 29);
    for (int lane = 0; lane < 4; lane++)
        sum = turned((sum ^ more[lane]) * GOLDEN, 29);
    return sum;
}

static void seal(monohull_buffer payload, uint64_t hops) {
    uint64_t sum = checksum(hops, payload.data + HEADER, payload.len - HEADER);
    memcpy(payload.data, &sum, sizeof sum);
    memcpy(payload.data + 8, &hops, sizeof hops);
}

static uint64_t verified(monohull_buffer payload) {
    uint64_t sum, hops;
    need(payload.len >= HEADER, "a payload that is too short");
    memcpy(&sum, payload.data, sizeof sum);
    memcpy(&hops, payload.data + 8, sizeof hops);
    need(sum == checksum(hops, payload.data + HEADER, payload.len - HEADER), "another checksum");
    return hops;
}

int main(int count, char **arguments) {
    long link = (long)number(count, arguments, "--link="), links = (long)number(count, arguments, "--links=");
    monohull_buffer payload;
    if (link == 0) {
        size_t bytes = number(count, arguments, "--bytes=");
        need(bytes >= HEADER, "--bytes");
        payload = make(bytes);
        payload.len = bytes;
        uint64_t word = 0;
        for (size_t at = HEADER; at + 8 <= payload.len; at += 8) {
            word += GOLDEN;
            memcpy(payload.data + at, &word, sizeof word);
        }
        seal(payload, 0);
    } else {
        payload = take(slot("payload", link - 1, -1));
        must(monohull_will_write(&payload), "writing");
    }
    uint64_t hops = verified(payload);
    if (link + 1 < links) {
        hops++;
        if (HEADER + hops < payload.len)
            payload.data[HEADER + hops] ^= 0xa5;
        seal(payload, hops);
        publish(slot("payload", link, -1), payload);
        return 0;
    }
    char text[64];
    snprintf(text, sizeof text, "%llu hops, %zu bytes\n", (unsigned long long)hops, payload.len);
    publish_copy("result", text, strlen(text));
    monohull_discard(&payload);
    return 0;
}
