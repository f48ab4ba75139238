/* The kinds of work that CoreMark measures, in code of our own: lists whose nodes are found, sorted and reversed, small matrices of integers, a
 * machine of states that reads numbers, and a CRC of all that comes out. */
#include "mixed.h"
#include <stddef.h>

#define ROUNDS 600

static uint16_t crc(uint16_t sum, uint16_t value) {
    for (int bit = 0; bit < 16; bit++) {
        uint16_t differs = (sum ^ value) & 1;
        sum = sum >> 1 ^ (differs ? 0xa001 : 0);
        value >>= 1;
    }
    return sum;
}

/* -- Lists: pointers that are followed, and calls through pointers. ------------------------------------------------------- */

#define NODES 160

struct node {
    struct node *next;
    int16_t value, index;
};

typedef int (*order)(const struct node *, const struct node *);

static int by_value(const struct node *left, const struct node *right) {
    return left->value - right->value;
}

/* Lists are put back into the order that they had. */
static int by_index(const struct node *left, const struct node *right) {
    return left->index - right->index;
}

static struct node *find(struct node *list, int16_t value) {
    while (list && (list->value & 0xff) != value)
        list = list->next;
    return list;
}

static struct node *reverse(struct node *list) {
    struct node *done = NULL;
    while (list) {
        struct node *rest = list->next;
        list->next = done;
        done = list;
        list = rest;
    }
    return done;
}

/* By merging runs of doubled length, as long as there is more than one. */
static struct node *sort(struct node *list, order before) {
    for (size_t run = 1;; run *= 2) {
        struct node *left = list, **end = &list;
        size_t merges = 0;
        while (left) {
            struct node *right = left;
            size_t lefts = 0, rights = run;
            merges++;
            while (lefts < run && right) {
                right = right->next;
                lefts++;
            }
            while (lefts > 0 || (rights > 0 && right)) {
                struct node **from;
                if (lefts > 0 && (rights == 0 || !right || before(left, right) <= 0)) {
                    from = &left;
                    lefts--;
                } else {
                    from = &right;
                    rights--;
                }
                *end = *from;
                end = &(*from)->next;
                *from = *end;
            }
            left = right;
        }
        *end = NULL;
        if (merges <= 1)
            return list;
    }
}

static uint16_t lists(struct node *nodes, uint16_t seed) {
    struct node *list = NULL;
    for (int i = NODES; i-- > 0;) {
        nodes[i] = (struct node){ list, (int16_t)((i * 37 ^ seed) & 0x7ff), (int16_t)i };
        list = &nodes[i];
    }
    uint16_t found = 0, sum = 0;
    for (int16_t value = 0; value < 40; value++) {
        struct node *at = find(list, value);
        found += at ? (uint16_t)at->index : 1;
        list = reverse(list);
    }
    list = sort(list, by_value);
    for (struct node *at = list; at; at = at->next)
        sum = crc(sum, (uint16_t)at->value);
    list = sort(list, by_index);
    for (struct node *at = list; at && at->index < 16; at = at->next)
        sum = crc(sum, (uint16_t)at->value);
    return crc(sum, found);
}

/* -- Matrices: loops whose bounds are known. ------------------------------------------------------------------------------ */

#define SIDE 12

static uint16_t matrices(uint16_t seed) {
    static int16_t a[SIDE][SIDE], b[SIDE][SIDE];
    static int32_t c[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            a[i][j] = (int16_t)((i * SIDE + j + seed) * 13 & 0xff);
            b[i][j] = (int16_t)((j * SIDE + i - seed) * 7 & 0xff);
        }
    uint16_t sum = 0;
    for (int16_t factor = 1; factor < 4; factor++) {
        int32_t total = 0, before = 0;
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) {
                int32_t cell = 0;
                for (int k = 0; k < SIDE; k++) {
                    int32_t product = (int32_t)a[i][k] * b[k][j] * factor;
                    cell += (product >> 2 & 0xf) * (product >> 5 & 0x7f);
                }
                c[i][j] = cell;
                total += cell > before ? 10 : cell & 1;
                before = cell;
            }
        sum = crc(sum, (uint16_t)total);
        sum = crc(sum, (uint16_t)c[factor][SIDE - factor]);
    }
    return sum;
}

/* -- States: branches that depend on what is read. ------------------------------------------------------------------------ */

enum state { START, SIGN, WHOLE, POINT, FRACTION, EXPONENT, EXPONENT_SIGN, POWER, WRONG, STATES };

static enum state step(enum state state, char byte) {
    int is_digit = byte >= '0' && byte <= '9';
    switch (state) {
    case START:
        if (is_digit)
            return WHOLE;
        return byte == '+' || byte == '-' ? SIGN : byte == '.' ? POINT : WRONG;
    case SIGN:
        return is_digit ? WHOLE : byte == '.' ? POINT : WRONG;
    case WHOLE:
        return is_digit ? WHOLE : byte == '.' ? FRACTION : byte == 'e' || byte == 'E' ? EXPONENT : WRONG;
    case POINT:
        return is_digit ? FRACTION : WRONG;
    case FRACTION:
        return is_digit ? FRACTION : byte == 'e' || byte == 'E' ? EXPONENT : WRONG;
    case EXPONENT:
        return is_digit ? POWER : byte == '+' || byte == '-' ? EXPONENT_SIGN : WRONG;
    case EXPONENT_SIGN:
    case POWER:
        return is_digit ? POWER : WRONG;
    default:
        return WRONG;
    }
}

static uint16_t states(char *text, size_t length, uint16_t seed) {
    static uint32_t ends[STATES], entries[STATES];
    /* Another text each time, and back again. */
    size_t stride = seed % 19 + 5;
    for (int turn = 0; turn < 2; turn++) {
        enum state state = START;
        for (size_t at = 0; at < length; at++) {
            if (text[at] == ',') {
                ends[state]++;
                state = START;
                continue;
            }
            enum state next = step(state, text[at]);
            entries[next] += next != state;
            state = next;
        }
        for (size_t at = 0; at < length; at += stride)
            if (text[at] != ',')
                text[at] ^= 0x11;
    }
    uint16_t sum = 0;
    for (int state = 0; state < STATES; state++) {
        sum = crc(sum, (uint16_t)ends[state]);
        sum = crc(sum, (uint16_t)entries[state]);
    }
    return sum;
}

uint32_t mixed(void) {
    static struct node nodes[NODES];
    static char text[] = "5012,1234,-874,+122,35.54400,.1234500,-110.700,+0.64400,5.500e+3,-.123e-2,-87e+832,+0.6e-12,T0.3e-1F,-T.T++Tq,1T3.4e4z,34.0e-T^,"
                         "7,19,.5,-3.25,88e8,+,-.,e5,12ee3,0.0.0,999999999999,-0,+00.10e+01,6.02214e23,1.6e-19,";
    uint16_t sum = 0;
    for (uint16_t round = 0; round < ROUNDS; round++) {
        uint16_t seed = (uint16_t)(round + (sum & 1));
        sum = crc(sum, lists(nodes, seed));
        sum = crc(sum, matrices(seed));
        sum = crc(sum, states(text, sizeof text - 1, seed));
    }
    return sum;
}
