/* What a benchmark runs in two engines: each mode measures itself, by the clock that WASI has, and prints nanoseconds. */
#include "mixed.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <wasi/api.h>

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Primes below a bound, a byte each: loads and stores with little between them. */
#define BOUND 5000000
static uint8_t composite[BOUND];

static uint32_t sieve(void) {
    memset(composite, 0, sizeof composite);
    uint32_t primes = 0;
    for (uint32_t n = 2; n < BOUND; n++) {
        if (composite[n])
            continue;
        primes++;
        for (uint64_t multiple = (uint64_t)n * n; multiple < BOUND; multiple += n)
            composite[multiple] = 1;
    }
    return primes;
}

/* A product of matrices: floating point, and addresses far from each other. */
#define SIDE 300
static double left[SIDE][SIDE], right[SIDE][SIDE], product[SIDE][SIDE];

static uint32_t matmul(void) {
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            left[i][j] = (i * 7 + j) % 11;
            right[i][j] = (i + j * 5) % 13;
        }
    double sum = 0;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double cell = 0;
            for (int k = 0; k < SIDE; k++)
                cell += left[i][k] * right[k][j];
            product[i][j] = cell;
            sum += cell;
        }
    return (uint32_t)(uint64_t)sum;
}

/* SHA-256 of some megabytes: integers that stay in registers. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t word, int by) {
    return word >> by | word << (32 - by);
}

static void compress(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[i] + w[i];
        uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

static uint32_t sha256(void) {
    uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    for (int i = 0; i < BOUND; i++)
        composite[i] = (uint8_t)(i * 31);
    for (int at = 0; at + 64 <= BOUND; at += 64)
        compress(state, composite + at);
    return state[0];
}

#define CALLS 1000000

/* A call that the engine answers by itself. */
static uint32_t calls(void) {
    uint64_t sum = 0, resolution;
    for (int i = 0; i < CALLS; i++)
        sum += __wasi_clock_res_get(__WASI_CLOCKID_MONOTONIC, &resolution);
    return (uint32_t)sum;
}

/* A call that asks the system beneath the engine. */
static uint32_t clocks(void) {
    uint64_t sum = 0, time;
    for (int i = 0; i < CALLS; i++)
        sum += __wasi_clock_time_get(__WASI_CLOCKID_MONOTONIC, 1, &time);
    return (uint32_t)sum;
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        uint32_t (*run)(void);
        uint32_t expected;
        uint32_t per;
    } modes[] = {
        { "--mode=sieve", sieve, 348513, 1 },
        { "--mode=matmul", matmul, 809980201, 1 },
        { "--mode=sha256", sha256, 1344581303, 1 },
        { "--mode=mixed", mixed, 39498, 1 },
        { "--mode=calls", calls, 0, CALLS },
        { "--mode=clocks", clocks, 0, CALLS },
    };
    if (count == 2 && strcmp(arguments[1], "--mode=nothing") == 0)
        return 0;
    /* For those that look at it from outside. */
    if (count == 2 && strcmp(arguments[1], "--mode=wait") == 0)
        return nanosleep(&(struct timespec){ .tv_sec = 4 }, NULL);
    for (size_t i = 0; i < sizeof modes / sizeof *modes && count == 2; i++) {
        if (strcmp(arguments[1], modes[i].name) != 0)
            continue;
        uint64_t start = now();
        uint32_t result = modes[i].run();
        uint64_t spent = now() - start;
        if (modes[i].expected && result != modes[i].expected) {
            fprintf(stderr, "%s: %u instead of %u\n", modes[i].name, result, modes[i].expected);
            return 1;
        }
        printf("%f\n", (double)spent / modes[i].per);
        return 0;
    }
    fprintf(stderr, "one argument: --mode=NAME\n");
    return 1;
}
