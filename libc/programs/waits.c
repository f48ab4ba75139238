/* Threads that wait for each other in every way that lies within a program, while its first thread naps: `waits NAPS MILLISECONDS`. Each finds
 * what it waited for as it was left, whoever goes on with the program. `waits listens MILLISECONDS` waits for a socket in `epoll`, and
 * `waits connects MILLISECONDS` for a connection. `waits owns MILLISECONDS` naps with sockets that listen and get datagrams, while another thread
 * waits in `epoll`, and uses them afterwards. */
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* What a pipe holds. */
#define FULL 65536
#define MORE 20000

static long naps, milliseconds;
static int list, timed_list, counter, taken, quiet_counter, edge[2], once[2], silent[2], full[2], polled[2], selected[2], pair[2];
static atomic_int awake;

static int control(int epoll, int operation, int descriptor, unsigned wanted)
{
	struct epoll_event event = {.events = wanted, .data.fd = descriptor};
	return epoll_ctl(epoll, operation, descriptor, &event);
}

/* The descriptor that is found at once, alone; -1 if there is none. */
static int found(void)
{
	struct epoll_event events[8];
	int count = epoll_wait(list, events, 8, 0);
	return count == 1 ? events[0].data.fd : count == 0 ? -1 : -2;
}

static void nap(long milliseconds)
{
	nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, 0);
}

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void *in_the_list(void *none)
{
	struct epoll_event event = {0};
	int count = epoll_wait(list, &event, 1, -1);
	awake++;
	return (void *)(long)(count == 1 && event.data.fd == counter && event.events == EPOLLIN);
}

/* Half of the naps, and no less. */
static void *in_time(void *none)
{
	struct epoll_event event;
	long begin = now(), half = naps * milliseconds / 2;
	return (void *)(long)(epoll_wait(timed_list, &event, 1, half) == 0 && now() - begin >= half);
}

static void *reads_a_pipe(void *none)
{
	char bytes[8] = "";
	long count = read(silent[0], bytes, 8);
	awake++;
	return (void *)(long)(count == 5 && memcmp(bytes, "after", 5) == 0);
}

static void *reads_a_counter(void *none)
{
	eventfd_t value = 0;
	int status = eventfd_read(taken, &value);
	awake++;
	return (void *)(long)(status == 0 && value == 7);
}

/* More than fits. */
static void *writes_a_pipe(void *none)
{
	static unsigned char bytes[FULL + MORE];
	for (int at = 0; at < FULL + MORE; at++) bytes[at] = at % 251;
	long count = write(full[1], bytes, sizeof bytes);
	awake++;
	return (void *)(long)(count == sizeof bytes);
}

static void *polls(void *none)
{
	struct pollfd wishes[] = {{.fd = polled[0], .events = POLLIN}, {.fd = quiet_counter, .events = POLLIN}};
	int count = poll(wishes, 2, -1);
	awake++;
	return (void *)(long)(count == 1 && wishes[0].revents == POLLIN && wishes[1].revents == 0);
}

static void *selects(void *none)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(selected[0], &set);
	int count = select(selected[0] + 1, &set, 0, 0, 0);
	awake++;
	return (void *)(long)(count == 1 && FD_ISSET(selected[0], &set));
}

/* What was in a pair before the naps, and what comes after. */
static void *receives(void *none)
{
	char bytes[16] = "";
	long count = 0, part;
	while (count < 11 && (part = read(pair[0], bytes + count, 11 - count)) > 0) count += part;
	awake++;
	return (void *)(long)(count == 11 && memcmp(bytes, "beforeafter", 11) == 0);
}

static void waits_for_each_other(void)
{
	struct epoll_event event;
	char bytes[16];
	list = epoll_create1(0), timed_list = epoll_create1(0);
	counter = eventfd(0, 0), taken = eventfd(0, 0), quiet_counter = eventfd(0, EFD_SEMAPHORE);
	CHECK(pipe(edge) == 0 && pipe(silent) == 0 && pipe(full) == 0 && pipe(polled) == 0 && pipe(selected) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, once) == 0);
	CHECK(control(list, EPOLL_CTL_ADD, counter, EPOLLIN) == 0);
	CHECK(control(list, EPOLL_CTL_ADD, edge[0], EPOLLIN | EPOLLET) == 0);
	CHECK(control(list, EPOLL_CTL_ADD, once[0], EPOLLIN | EPOLLONESHOT) == 0);
	CHECK(control(timed_list, EPOLL_CTL_ADD, quiet_counter, EPOLLIN) == 0);
	/* What has been reported is there still. */
	CHECK(write(edge[1], "12345", 5) == 5 && found() == edge[0]);
	CHECK(write(once[1], "x", 1) == 1 && found() == once[0]);
	CHECK(write(pair[1], "before", 6) == 6);
	CHECK(found() == -1);

	void *(*all[])(void *) = {in_the_list, in_time, reads_a_pipe, reads_a_counter, writes_a_pipe, polls, selects};
	enum { COUNT = sizeof all / sizeof *all };
	pthread_t threads[COUNT], receiver;
	for (int at = 0; at < COUNT; at++) CHECK(pthread_create(&threads[at], 0, all[at], 0) == 0);
	for (long done = 0; done < naps; done++) {
		long begin = now();
		nap(milliseconds);
		CHECK(now() - begin >= milliseconds);
		CHECK(awake == 0);
		CHECK(found() == -1);
	}
	CHECK(recv(pair[0], bytes, 16, MSG_PEEK) == 6 && memcmp(bytes, "before", 6) == 0);
	CHECK(recv(once[0], bytes, 16, MSG_PEEK) == 1 && bytes[0] == 'x');

	CHECK(eventfd_write(counter, 2) == 0 && eventfd_write(taken, 7) == 0);
	CHECK(write(silent[1], "after", 5) == 5 && write(polled[1], "p", 1) == 1 && write(selected[1], "s", 1) == 1);
	int wrong = 0;
	for (int at = 0; at < FULL + MORE;) {
		unsigned char part[1000];
		long count = read(full[0], part, sizeof part);
		if (count <= 0) break;
		for (long byte = 0; byte < count; byte++, at++) wrong += part[byte] != at % 251;
	}
	CHECK(wrong == 0);
	for (int at = 0; at < COUNT; at++) {
		void *right = 0;
		CHECK(pthread_join(threads[at], &right) == 0);
		if (!right) printf("thread %d found something else\n", at);
		CHECK(right != 0);
	}

	/* The lists know what they had reported. */
	eventfd_t value = 0;
	CHECK(eventfd_read(counter, &value) == 0 && value == 2);
	CHECK(found() == -1);
	CHECK(write(edge[1], "6", 1) == 1 && found() == edge[0] && found() == -1);
	CHECK(read(edge[0], bytes, 16) == 6 && memcmp(bytes, "123456", 6) == 0);
	CHECK(control(list, EPOLL_CTL_MOD, once[0], EPOLLIN) == 0 && found() == once[0] && found() == once[0]);
	FAILS(control(list, EPOLL_CTL_ADD, counter, EPOLLIN), EEXIST);
	CHECK(close(once[1]) == 0 && read(once[0], bytes, 16) == 1 && read(once[0], bytes, 16) == 0);
	CHECK(epoll_wait(list, &event, 1, -1) == 1 && event.data.fd == once[0] && event.events & EPOLLHUP);
	CHECK(pthread_create(&receiver, 0, receives, 0) == 0);
	nap(milliseconds);
	CHECK(awake == COUNT - 1);
	CHECK(close(list) == 0 && close(timed_list) == 0);
	CHECK(write(pair[1], "after", 5) == 5);
	void *right = 0;
	CHECK(pthread_join(receiver, &right) == 0);
	CHECK(right != 0);
}

/* In a list with what it asks of a socket, until the time is over. */
static void waits_for_a_socket(int connects)
{
	struct epoll_event event;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0), stream = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 4) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
	list = epoll_create1(0);
	if (connects) CHECK(connect(stream, (struct sockaddr *)&at, sizeof at) == 0);
	CHECK(control(list, EPOLL_CTL_ADD, connects ? stream : listener, EPOLLIN) == 0);
	CHECK(epoll_wait(list, &event, 1, milliseconds) == 0);
}

/* Where no other program is likely to listen. */
#define OWN "127.83.61.47"

/* The number of its own, 0 for one that is free. */
static in_port_t number;

/* A socket of this kind with this number, and the address that it has. */
static int own_socket(int kind, struct sockaddr_in *at)
{
	socklen_t length = sizeof *at;
	int made = socket(AF_INET, kind, 0);
	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(number), .sin_addr.s_addr = inet_addr(OWN)};
	CHECK(bind(made, (struct sockaddr *)at, sizeof *at) == 0);
	if (kind == SOCK_STREAM) CHECK(listen(made, 4) == 0);
	CHECK(getsockname(made, (struct sockaddr *)at, &length) == 0 && at->sin_port != 0);
	return made;
}

/* Both are there after a nap, at the addresses that they had; and so is the thread that waits. */
static void owns_sockets(void)
{
	struct sockaddr_in at[2], now[2];
	char got[8] = {0};
	int kinds[] = {SOCK_STREAM, SOCK_DGRAM}, own[2], other[2];
	pthread_t waiting;
	for (int i = 0; i < 2; i++) own[i] = own_socket(kinds[i], &at[i]);
	list = epoll_create1(0);
	counter = eventfd(0, 0);
	CHECK(control(list, EPOLL_CTL_ADD, counter, EPOLLIN) == 0);
	CHECK(pthread_create(&waiting, 0, in_the_list, 0) == 0);
	nap(milliseconds);
	for (int i = 0; i < 2; i++) {
		socklen_t length = sizeof now[i];
		CHECK(getsockname(own[i], (struct sockaddr *)&now[i], &length) == 0);
		CHECK(now[i].sin_port == at[i].sin_port && now[i].sin_addr.s_addr == at[i].sin_addr.s_addr);
		other[i] = socket(AF_INET, kinds[i], 0);
		CHECK(connect(other[i], (struct sockaddr *)&at[i], sizeof at[i]) == 0);
		CHECK(write(other[i], "after", 5) == 5);
	}
	CHECK(read(accept(own[0], 0, 0), got, sizeof got) == 5 && memcmp(got, "after", 5) == 0);
	CHECK(recv(own[1], got + 1, 7, 0) == 5 && memcmp(got + 1, "after", 5) == 0);
	CHECK(eventfd_write(counter, 1) == 0);
	void *right = 0;
	CHECK(pthread_join(waiting, &right) == 0);
	CHECK(right != 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "1";
	milliseconds = argc > 2 ? atol(argv[2]) : 10;
	number = argc > 3 ? atoi(argv[3]) : 0;
	naps = atol(what);
	if (naps > 0) waits_for_each_other();
	else if (strcmp(what, "owns") == 0) owns_sockets();
	else waits_for_a_socket(strcmp(what, "connects") == 0);
	return end();
}
