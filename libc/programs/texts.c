/* Texts and sorting, against what does the same byte by byte. */
#include "check.h"
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

/* A page between two that cannot be touched. */
static char *page(void)
{
	char *room = mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED || mprotect(room + PAGE, PAGE, PROT_READ | PROT_WRITE)) return 0;
	return room + PAGE;
}

static int sign(int number)
{
	return (number > 0) - (number < 0);
}

/* Texts of every length, at both ends of a page, with a byte of interest at each place. */
static int searches(char *room)
{
	for (int length = 0; length < 150; length++)
		for (int side = 0; side < 2; side++) {
			char *text = side ? room : room + PAGE - length - 1;
			memset(text, 'a', length);
			text[length] = 0;
			if (strlen(text) != (size_t)length || strnlen(text, PAGE) != (size_t)length) return 0;
			if (strnlen(text, length / 2) != (size_t)length / 2) return 0;
			if (strchr(text, 'b') || strrchr(text, 'b') || strchr(text, 0) != text + length) return 0;
			if (strchrnul(text, 'b') != text + length || memchr(text, 'b', length) || memrchr(text, 'b', length)) return 0;
			for (int at = 0; at < length; at++) {
				text[at] = '\xe9';
				if (strchr(text, 0xe9) != text + at || strrchr(text, 0xe9) != text + at) return 0;
				if (memchr(text, 0x1e9, SIZE_MAX) != text + at || memrchr(text, 0xe9, length) != text + at) return 0;
				if (strchrnul(text, 0xe9) != text + at) return 0;
				text[at] = 'a';
			}
		}
	return 1;
}

static int orders(char *one, char *other)
{
	for (int length = 0; length < 150; length++)
		for (int behind = 0; behind < 20; behind += 19) {
			char *a = one + PAGE - length - 1, *b = other + PAGE - length - 1 - behind;
			memset(a, 'k', length), memset(b, 'K', length);
			a[length] = b[length] = 0;
			if (strcasecmp(a, b) || strncasecmp(a, b, SIZE_MAX) || strcasecmp_l(a, b, 0)) return 0;
			if (length && (strcmp(a, b) <= 0 || strncmp(b, a, 1) >= 0)) return 0;
			memset(b, 'k', length);
			if (strcmp(a, b) || strncmp(a, b, length / 2)) return 0;
			for (int at = 0; at < length; at++) {
				b[at] = '\xff';
				if (strcmp(a, b) >= 0 || strcmp(b, a) <= 0 || strncmp(a, b, at) || strncmp(a, b, at + 1) >= 0) return 0;
				if (strcasecmp(a, b) >= 0 || strncasecmp(b, a, at) || strncasecmp(b, a, at + 1) <= 0) return 0;
				b[at] = 0;
				if (strcmp(a, b) <= 0 || strcasecmp(b, a) >= 0) return 0;
				b[at] = 'k';
			}
		}
	return 1;
}

/* Copies up to the end of one page, to the end of another. */
static int copied(char *one, char *other)
{
	for (int length = 0; length < 150; length++) {
		char *from = one + PAGE - length - 1, *to = other + PAGE - length - 1;
		for (int at = 0; at < length; at++) from[at] = 1 + at % 255;
		from[length] = 0;
		memset(other, 'x', PAGE);
		if (stpcpy(to, from) != to + length || strcmp(to, from) || to[-1] != 'x') return 0;
		memset(to, 'y', length);
		if (strcpy(to, from) != to || memcmp(to, from, length + 1)) return 0;
		memset(other, 'x', PAGE);
		memcpy(other, "ab", 3);
		if (strcat(other, from) != other || strcmp(other + 2, from) || other[length + 3] != 'x') return 0;
	}
	return 1;
}

/* An element: what counts, where it was, and bytes that go along. */
struct element {
	int key, place;
	char more[];
};

static int width, calls;

static int by_key(const void *a, const void *b)
{
	calls++;
	return sign(((const struct element *)a)->key - ((const struct element *)b)->key);
}

static int by_key_down(const void *a, const void *b, void *argument)
{
	++*(int *)argument;
	return -by_key(a, b);
}

/* No order at all: the sort ends, and has the elements that there were. */
static int by_chance(const void *a, const void *b)
{
	static unsigned random;
	(void)a, (void)b;
	return (int)(random = random * 1664525 + 1013904223) >> 16;
}

static int sorts(int count, int keys)
{
	char *all = malloc((size_t)count * width + 1);
	if (!all) return 0;
	unsigned random = count * 31 + keys;
	for (int order = 0; order < 4; order++) {
		long sum = 0;
		for (int at = 0; at < count; at++) {
			struct element *element = (void *)(all + (size_t)at * width);
			random = random * 1664525 + 1013904223;
			element->key = order == 0 ? at : order == 1 ? -at : (int)(random >> 8) % keys;
			element->place = at;
			memset(element->more, element->key, width - sizeof *element);
			sum += element->key;
		}
		all[(size_t)count * width] = 'e';
		int asked = 0;
		if (order == 3)
			qsort_r(all, count, width, by_key_down, &asked);
		else
			qsort(all, count, width, by_key);
		if (order == 3 && count > 1 && !asked) return 0;
		for (int at = 0; at < count; at++) {
			struct element *element = (void *)(all + (size_t)at * width), *next = (void *)((char *)element + width);
			sum -= element->key;
			for (size_t more = 0; more < width - sizeof *element; more++)
				if (element->more[more] != (char)element->key) return 0;
			if (at + 1 == count) break;
			int wanted = order == 3 ? sign(next->key - element->key) : sign(element->key - next->key);
			/* Those that are equal stay in their order. */
			if (wanted > 0 || (wanted == 0 && element->place > next->place)) return 0;
		}
		if (sum || all[(size_t)count * width] != 'e') return 0;
	}
	free(all);
	return 1;
}

static int by_number(const void *a, const void *b)
{
	return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void sorting(void)
{
	static const int counts[] = {0, 1, 2, 3, 7, 8, 9, 16, 17, 100, 1000, 5000};
	static const int widths[] = {8, 16, 24, 72};
	for (unsigned at = 0; at < sizeof counts / sizeof *counts; at++)
		for (unsigned wide = 0; wide < sizeof widths / sizeof *widths; wide++) {
			width = widths[wide];
			CHECK(sorts(counts[at], 3) && sorts(counts[at], 100000));
		}
	static int numbers[70001];
	for (int at = 0; at < 70001; at++) numbers[at] = at * 7919 % 70001;
	qsort(numbers, 70001, sizeof *numbers, by_chance);
	qsort(numbers, 70001, sizeof *numbers, by_number);
	int wrong = 0;
	for (int at = 0; at < 70001; at++) wrong += numbers[at] != at;
	CHECK(wrong == 0);
	/* What is in order is seen to be. */
	calls = 0, width = 8;
	CHECK(sorts(0, 1) && calls == 0);

	/* Without memory for the half of it. */
	enum { COUNT = 6 << 20 };
	int *many = malloc(COUNT * sizeof *many);
	CHECK(many != 0);
	for (int at = 0; many && at < COUNT; at++) many[at] = (unsigned)at * 2654435761u >> 9;
	void *rest = malloc(28 << 20);
	CHECK(rest != 0 && malloc(COUNT * sizeof *many / 2) == 0);
	qsort(many, COUNT, sizeof *many, by_number);
	wrong = 0;
	for (int at = 1; at < COUNT; at++) wrong += many[at - 1] > many[at];
	CHECK(wrong == 0);
	free(rest);
	free(many);
}

int main(void)
{
	char *one = page(), *other = page();
	CHECK(one && other);
	if (!one || !other) return end();
	CHECK(searches(one));
	CHECK(orders(one, other));
	CHECK(copied(one, other));
	sorting();
	return end();
}
