/* A program with a heap of its own: the libc and its threads use it as well. */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

enum { ROOM = 1 << 20, HEADER = 16 };

static _Alignas(16) char room[ROOM];
static size_t used;

void *malloc(size_t size)
{
	size_t start = __atomic_fetch_add(&used, HEADER + (size + 15) / 16 * 16, __ATOMIC_RELAXED);
	if (start + HEADER + size > ROOM) return 0;
	*(size_t *)(room + start) = size;
	return room + start + HEADER;
}

void free(void *block)
{
}

void *calloc(size_t count, size_t size)
{
	void *block = malloc(count * size);
	return block ? memset(block, 0, count * size) : 0;
}

void *realloc(void *old, size_t size)
{
	char *new = malloc(size);
	size_t before = old ? *(size_t *)((char *)old - HEADER) : 0;
	return new && old ? memcpy(new, old, before < size ? before : size) : new;
}

static int is_ours(const void *block)
{
	return (const char *)block > room && (const char *)block < room + ROOM;
}

static void *copy(void *text)
{
	return strdup(text);
}

int main(void)
{
	char *line = 0;
	CHECK(is_ours(strdup("text")));
	CHECK(asprintf(&line, "%d", 42) == 2 && is_ours(line) && !strcmp(line, "42"));
	pthread_t thread;
	void *copied;
	CHECK(pthread_create(&thread, 0, copy, "of a thread") == 0 && pthread_join(thread, &copied) == 0);
	CHECK(is_ours(copied) && !strcmp(copied, "of a thread"));
	/* The rest of the libc's heap is there: what it gives is not the program's. */
	void *page = memalign(4096, 100);
	CHECK(page && (size_t)page % 4096 == 0 && !is_ours(page));
	return end();
}
