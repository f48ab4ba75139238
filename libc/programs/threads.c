/* Threads, locks, thread-local variables and clocks. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static __thread int with_a_value = 7;
static __thread char without[5000];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int total, ready, made, destroyed;

static void make(void)
{
	made++;
}

/* What ends a thread-local variable of C++, by the name that glibc has for it. */
int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
static char order[8];

static void append(void *letter)
{
	order[strlen(order)] = (long)letter;
	/* One that is registered meanwhile is next. */
	if ((long)letter == 'c') CHECK(__cxa_thread_atexit_impl(append, (void *)'b', 0) == 0);
}

/* Its name is its own. */
static void *has_a_name(void *how)
{
	char name[16];
	CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && !strcmp(name, "program"));
	CHECK(pthread_setname_np(pthread_self(), "fifteen letters") == 0);
	CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && !strcmp(name, "fifteen letters"));
	CHECK(prctl(PR_SET_NAME, "a name of more letters") == 0 && prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "a name of more "));
	CHECK(__cxa_thread_atexit_impl(append, (void *)'a', 0) == 0 && __cxa_thread_atexit_impl(append, (void *)'c', 0) == 0);
	if (how) pthread_exit(0);
	return 0;
}

static void names_and_destructors(void)
{
	char name[16];
	pthread_t thread;
	for (long how = 0; how < 2; how++) {
		memset(order, 0, sizeof order);
		CHECK(pthread_create(&thread, 0, has_a_name, (void *)how) == 0 && pthread_join(thread, 0) == 0 && !strcmp(order, "cba"));
	}
	CHECK(prctl(PR_SET_NAME, "main") == 0 && pthread_getname_np(pthread_self(), name, sizeof name) == 0 && !strcmp(name, "main"));
	FAILS(prctl(PR_GET_NAME, 0), EFAULT);
	FAILS(prctl(PR_SET_PDEATHSIG, 9), EINVAL);
}

static void destroy(void *value)
{
	pthread_mutex_lock(&lock);
	destroyed += (long)value;
	pthread_mutex_unlock(&lock);
}

static void *count(void *number)
{
	pthread_once(&once, make);
	pthread_setspecific(key, number);
	with_a_value += (long)number;
	without[4999] = 1;
	for (int at = 0; at < 1000; at++) {
		pthread_mutex_lock(&lock);
		total++;
		pthread_mutex_unlock(&lock);
		if (at % 100 == 0) sched_yield();
	}
	pthread_rwlock_rdlock(&shared);
	pthread_rwlock_unlock(&shared);
	pthread_mutex_lock(&lock);
	ready++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return (void *)(long)(with_a_value + without[4998] + (pthread_self() == 0) + (gettid() == getpid()));
}

/* Uses so many KiB of the stack. */
static long deep(long kib)
{
	volatile char used[1024];
	used[0] = kib;
	return kib <= 1 ? used[0] : deep(kib - 1) + 1 + 0 * used[0];
}

static void *recurse(void *kib)
{
	pthread_attr_t attributes;
	void *stack;
	size_t size;
	int has = pthread_getattr_np(pthread_self(), &attributes) == 0 && pthread_attr_getstack(&attributes, &stack, &size) == 0;
	with_a_value++;
	has &= __builtin_thread_pointer() == (void *)pthread_self();
	*(volatile char *)stack = 1;
	void *result = (void *)(has && (char *)&size > (char *)stack && (char *)&size < (char *)stack + size && size >= (size_t)kib << 10 ?
		deep((long)kib) + with_a_value : 0);
	pthread_mutex_lock(&lock);
	ready++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return result;
}

static void wait_for(int wanted)
{
	pthread_mutex_lock(&lock);
	while (ready < wanted) pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void *leave(void *value)
{
	pthread_exit(value);
}

static int c11(void *value)
{
	return *(int *)value + 1;
}

/* A thread that ends while it holds a mutex leaves it to the next one. */
static void *dies(void *mutex)
{
	pthread_mutex_lock(mutex);
	return 0;
}

/* Stacks of another size than the step's. Joined or detached, they are given back: together they are more memory than there is. */
static void stacks(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *result;
	CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 8 << 20) == 0);
	for (int at = 0; at < 200; at++) {
		CHECK(pthread_create(&thread, &attributes, recurse, (void *)7500) == 0);
		CHECK(pthread_join(thread, &result) == 0 && (long)result == 7500 + 8);
	}
	CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
	ready = 0;
	for (int at = 1; at <= 200; at++) {
		/* One that has said its last may be there for a moment yet. */
		int tries = 0, error;
		while ((error = pthread_create(&thread, &attributes, recurse, (void *)100)) == EAGAIN && tries++ < 1000) sched_yield();
		CHECK(error == 0);
		wait_for(at);
	}
	CHECK(pthread_attr_setguardsize(&attributes, 0) == 0 && pthread_create(&thread, &attributes, recurse, (void *)100) == 0);
	wait_for(201);
	/* More than the step's memory, and than there are addresses. */
	CHECK(pthread_attr_setguardsize(&attributes, 4096) == 0 && pthread_attr_setstacksize(&attributes, 2ul << 30) == 0);
	CHECK(pthread_create(&thread, &attributes, recurse, (void *)1) == EAGAIN);
	CHECK(pthread_attr_setstacksize(&attributes, 1ul << 40) == 0 && pthread_create(&thread, &attributes, recurse, (void *)1) == EAGAIN);
	/* A small one has at least what it asks for. */
	CHECK(pthread_attr_setstacksize(&attributes, 16384) == 0 && pthread_create(&thread, &attributes, recurse, (void *)12) == 0);
	wait_for(202);
	ready = 0;
}

static void robust(void)
{
	pthread_mutexattr_t how;
	pthread_mutex_t mutex;
	pthread_t thread;
	CHECK(pthread_mutexattr_init(&how) == 0 && pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0);
	CHECK(pthread_mutex_init(&mutex, &how) == 0 && pthread_create(&thread, 0, dies, &mutex) == 0);
	CHECK(pthread_join(thread, 0) == 0 && pthread_mutex_lock(&mutex) == EOWNERDEAD);
	CHECK(pthread_mutex_consistent(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
	CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

static pthread_mutex_t twice;

static void *locks_twice(void *unused)
{
	long wrong = pthread_mutex_lock(&twice) | pthread_mutex_lock(&twice);
	wrong |= pthread_mutex_unlock(&twice) | pthread_mutex_unlock(&twice);
	flockfile(stdout);
	funlockfile(stdout);
	return (void *)wrong;
}

/* More threads one after the other than their numbers have bits for, if musl keeps two of its own beside them. */
static void many(void)
{
	pthread_mutexattr_t recursive;
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&twice, &recursive);
	int at = 0;
	for (; at < 33000; at++) {
		pthread_t thread;
		void *wrong = 0;
		if (pthread_create(&thread, 0, locks_twice, 0) || pthread_join(thread, &wrong) || wrong) break;
	}
	CHECK(at == 33000);
}

/* So many at the same time, with stacks of 64 KiB, and one with 8 MiB. */
static int thousands(long count)
{
	pthread_attr_t attributes;
	pthread_t *threads = calloc(count, sizeof *threads), large;
	void *result;
	pthread_mutex_lock(&lock);
	CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 65536) == 0);
	long made = 0;
	while (made < count && pthread_create(&threads[made], &attributes, recurse, (void *)40) == 0) made++;
	CHECK(made == count);
	CHECK(pthread_attr_setstacksize(&attributes, 8 << 20) == 0 && pthread_create(&large, &attributes, recurse, (void *)7500) == 0);
	pthread_mutex_unlock(&lock);
	CHECK(pthread_join(large, &result) == 0 && (long)result == 7500 + 8);
	while (made > 0) CHECK(pthread_join(threads[--made], &result) == 0 && (long)result == 48);
	return end();
}

static void *endless(void *before)
{
	volatile long here[128];
	here[0] = (long)before;
	return endless((void *)&here[0]) + here[0];
}

static int overflow(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 8 << 20) == 0);
	CHECK(pthread_create(&thread, &attributes, endless, 0) == 0 && pthread_join(thread, 0) == 0);
	return end();
}

int main(int count_of, char **arguments)
{
	if (count_of > 1) return arguments[1][0] == 'o' ? overflow() : thousands(atol(arguments[1]));
	many();
	pthread_t threads[8];
	CHECK(pthread_key_create(&key, destroy) == 0);
	for (long at = 0; at < 8; at++) CHECK(pthread_create(&threads[at], 0, count, (void *)at) == 0);
	wait_for(8);
	for (long at = 0; at < 8; at++) {
		void *result;
		CHECK(pthread_join(threads[at], &result) == 0 && (long)result == 7 + at);
	}
	CHECK(total == 8000 && made == 1 && destroyed == 28 && with_a_value == 7 && without[4999] == 0);

	pthread_attr_t detached;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	ready = 0;
	for (int at = 0; at < 100; at++) CHECK(pthread_create(&threads[0], &detached, count, 0) == 0);
	wait_for(100);
	void *result;
	CHECK(pthread_create(&threads[0], 0, leave, &result) == 0);
	CHECK(pthread_join(threads[0], &result) == 0 && result == &result);
	names_and_destructors();
	robust();
	stacks();
	thrd_t other;
	int value = 41, more;
	CHECK(thrd_create(&other, c11, &value) == thrd_success && thrd_join(other, &more) == thrd_success && more == 42);

	pthread_attr_t attributes;
	void *stack;
	size_t size;
	CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
	CHECK(pthread_attr_getstack(&attributes, &stack, &size) == 0 && size >= 65536);
	CHECK((char *)&size > (char *)stack && (char *)&size < (char *)stack + size);
	CHECK(pthread_cancel(pthread_self()) == ENOSYS);
	cpu_set_t processors;
	CHECK(sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) >= 1);
	CHECK(sysconf(_SC_NPROCESSORS_ONLN) >= 1);

	/* Clocks, and waiting that ends with time. */
	struct timespec start, now, resolution;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &start) == 0 && clock_getres(CLOCK_MONOTONIC, &resolution) == 0);
	FAILS(clock_gettime(99, &now), EINVAL);
	CHECK(nanosleep(&(struct timespec){0, 2000000}, 0) == 0);
	FAILS(nanosleep(&(struct timespec){0, -1}, 0), EINVAL);
	clock_gettime(CLOCK_MONOTONIC, &now);
	CHECK((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec >= 2000000);
	now.tv_nsec += now.tv_nsec < 900000000 ? 1000000 : 0;
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &now, 0) == 0);
	struct timeval day;
	CHECK(gettimeofday(&day, 0) == 0 && labs(time(0) - day.tv_sec) <= 1 && day.tv_sec > 1600000000);
	CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0 && labs(now.tv_sec - day.tv_sec) <= 1);
	pthread_mutex_lock(&lock);
	now.tv_nsec = now.tv_nsec < 990000000 ? now.tv_nsec + 5000000 : 999999999;
	CHECK(pthread_cond_timedwait(&changed, &lock, &now) == ETIMEDOUT);
	pthread_mutex_unlock(&lock);
	sem_t semaphore;
	CHECK(sem_init(&semaphore, 0, 1) == 0 && sem_wait(&semaphore) == 0);
	FAILS(sem_timedwait(&semaphore, &(struct timespec){0, 0}), ETIMEDOUT);
	CHECK(sem_post(&semaphore) == 0 && sem_trywait(&semaphore) == 0);
	int word = 5;
	FAILS(syscall(SYS_futex, &word, 0, 4, 0), EAGAIN);
	FAILS(syscall(SYS_futex, &word, 0, 5, &(struct timespec){0, 1000}), ETIMEDOUT);
	FAILS(syscall(SYS_futex, (char *)&word + 1, 0, 5, 0), EINVAL);
	CHECK(syscall(SYS_futex, &word, 1, 10) == 0);
	return end();
}
