/* Event counters, pipes and pairs of sockets from thread to thread; waiting for them with poll and select. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BIG 300000

static char big[BIG], back[BIG];

/* What `poll` finds within a time. */
static int found(int descriptor, int events, int milliseconds)
{
	struct pollfd wish = {.fd = descriptor, .events = events};
	return poll(&wish, 1, milliseconds) == 1 ? wish.revents : 0;
}

static void pause_for(int milliseconds)
{
	nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000L}, 0);
}

static pthread_t start(void *(*function)(void *), int *argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, 0, function, argument) == 0);
	return thread;
}

static long joined(pthread_t thread)
{
	void *result = 0;
	CHECK(pthread_join(thread, &result) == 0);
	return (long)result;
}

/* Adds 5 to a counter, later. */
static void *adds(void *counter)
{
	pause_for(20);
	return (void *)(long)eventfd_write(*(int *)counter, 5);
}

/* Takes from a counter, later. */
static void *takes(void *counter)
{
	eventfd_t value = 0;
	pause_for(20);
	return (void *)(long)(eventfd_read(*(int *)counter, &value) ? -1 : (long)(value >> 60));
}

/* Writes all of `big`, and closes. */
static void *writes(void *end)
{
	long written = write(*(int *)end, big, BIG);
	close(*(int *)end);
	return (void *)written;
}

static void *writes_one(void *end)
{
	pause_for(20);
	return (void *)write(*(int *)end, "1", 1);
}

static void *reads_one(void *end)
{
	char byte;
	return (void *)read(*(int *)end, &byte, 1);
}

static void *closes(void *end)
{
	pause_for(20);
	return (void *)(long)close(*(int *)end);
}

/* Reads a byte and writes the next one, until the end. */
static void *answers(void *end)
{
	char byte;
	long count = 0;
	while (read(*(int *)end, &byte, 1) == 1) {
		byte++;
		count += write(*(int *)end, &byte, 1);
	}
	close(*(int *)end);
	return (void *)count;
}

/* How many bytes are read until the end, all as they were written. */
static long read_all(int end)
{
	long all = 0, part;
	while ((part = read(end, back + all, BIG - all)) > 0) all += part;
	return part == 0 && !memcmp(big, back, all) ? all : -1;
}

static void counters(void)
{
	eventfd_t value;
	char small[4];
	struct stat status;
	int counter = eventfd(3, 0);
	CHECK(counter >= 0 && eventfd_read(counter, &value) == 0 && value == 3);
	CHECK(eventfd_write(counter, 4) == 0 && eventfd_write(counter, 5) == 0);
	CHECK(eventfd_read(counter, &value) == 0 && value == 9);
	FAILS(read(counter, small, sizeof small), EINVAL);
	FAILS(write(counter, small, sizeof small), EINVAL);
	FAILS(eventfd_write(counter, UINT64_MAX), EINVAL);
	FAILS(lseek(counter, 0, SEEK_SET), ESPIPE);
	CHECK(fstat(counter, &status) == 0 && !S_ISREG(status.st_mode));
	CHECK(found(counter, POLLIN | POLLOUT, 1000) == POLLOUT && found(counter, POLLIN, 5) == 0);
	/* A read waits for a write, and a write that would overflow for a read. */
	pthread_t thread = start(adds, &counter);
	CHECK(eventfd_read(counter, &value) == 0 && value == 5 && joined(thread) == 0);
	thread = start(adds, &counter);
	CHECK(found(counter, POLLIN, 10000) == POLLIN && joined(thread) == 0 && eventfd_read(counter, &value) == 0);
	CHECK(eventfd_write(counter, UINT64_MAX - 1) == 0 && found(counter, POLLOUT, 0) == 0);
	thread = start(takes, &counter);
	CHECK(eventfd_write(counter, 7) == 0 && joined(thread) == 15);
	CHECK(eventfd_read(counter, &value) == 0 && value == 7);
	/* Non-blocking, seen by each duplicate. */
	int same = dup(counter);
	CHECK(fcntl(counter, F_GETFL) == O_RDWR && fcntl(counter, F_SETFL, O_NONBLOCK) == 0);
	CHECK(fcntl(same, F_GETFL) == (O_RDWR | O_NONBLOCK) && close(counter) == 0);
	FAILS(eventfd_read(same, &value), EAGAIN);
	CHECK(eventfd_write(same, UINT64_MAX - 1) == 0);
	FAILS(eventfd_write(same, 1), EAGAIN);
	close(same);
	FAILS(eventfd_write(same, 1), EBADF);

	counter = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(fcntl(counter, F_GETFD) == FD_CLOEXEC);
	CHECK(eventfd_read(counter, &value) == 0 && value == 1 && eventfd_read(counter, &value) == 0 && value == 1);
	FAILS(eventfd_read(counter, &value), EAGAIN);
	close(counter);
	FAILS(eventfd(0, 2), EINVAL);
}

static void pipes(void)
{
	int ends[2];
	char text[16] = {0};
	struct stat status;
	CHECK(pipe(ends) == 0 && fcntl(ends[0], F_GETFL) == O_RDONLY && fcntl(ends[1], F_GETFL) == O_WRONLY);
	CHECK(fstat(ends[0], &status) == 0 && S_ISFIFO(status.st_mode) && !isatty(ends[0]));
	CHECK(found(ends[0], POLLIN, 0) == 0 && found(ends[1], POLLOUT, 0) == POLLOUT);
	CHECK(write(ends[1], "hello", 5) == 5 && found(ends[0], POLLIN, 0) == POLLIN);
	CHECK(read(ends[0], text, 2) == 2 && read(ends[0], text + 2, 10) == 3 && !strcmp(text, "hello"));
	FAILS(write(ends[0], "x", 1), EBADF);
	FAILS(read(ends[1], text, 1), EBADF);
	FAILS(pread(ends[0], text, 1, 0), ESPIPE);
	struct iovec parts[2] = {{"on", 2}, {"e", 1}}, room[2] = {{text, 3}, {text + 8, 8}};
	CHECK(writev(ends[1], parts, 2) == 3 && readv(ends[0], room, 2) == 3 && !memcmp(text, "one", 3));
	CHECK(write(ends[1], "", 0) == 0 && read(ends[0], text, 0) == 0);

	/* More than fits: the writer waits for the reader, and the reader finds the end. */
	for (int at = 0; at < BIG; at++) big[at] = at * 31;
	pthread_t thread = start(writes, &ends[1]);
	CHECK(read_all(ends[0]) == BIG && joined(thread) == BIG && read(ends[0], text, 1) == 0);
	CHECK(found(ends[0], POLLIN, 1000) == POLLHUP);
	close(ends[0]);

	/* A duplicate keeps the end open. */
	CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 && fcntl(ends[1], F_GETFL) == (O_WRONLY | O_NONBLOCK));
	CHECK(fcntl(ends[0], F_GETFD) == FD_CLOEXEC && fcntl(ends[1], F_GETFD) == FD_CLOEXEC);
	int same = dup(ends[1]);
	close(ends[1]);
	FAILS(read(ends[0], text, 1), EAGAIN);
	long filled = write(same, big, BIG);
	CHECK(filled >= 4096 && filled < BIG && found(same, POLLOUT, 0) == 0);
	FAILS(write(same, "x", 1), EAGAIN);
	CHECK(read(ends[0], back, 100) == 100);
	/* At most PIPE_BUF bytes go whole or not at all. */
	FAILS(write(same, big, 101), EAGAIN);
	CHECK(write(same, big, 100) == 100);
	close(ends[0]);
	CHECK(found(same, POLLOUT, 0) == POLLERR);
	FAILS(write(same, "x", 1), EPIPE);
	close(same);

	/* Closed by another thread while this one waits. */
	CHECK(pipe(ends) == 0);
	thread = start(closes, &ends[1]);
	CHECK(read(ends[0], text, 1) == 0 && joined(thread) == 0 && close(ends[0]) == 0);
	CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0 && write(ends[1], big, BIG) == 65536);
	CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
	thread = start(closes, &ends[0]);
	FAILS(write(ends[1], "x", 1), EPIPE);
	CHECK(joined(thread) == 0 && close(ends[1]) == 0);

	/* Closed while another thread reads from it: that call goes on, and the end goes with it. */
	CHECK(pipe(ends) == 0);
	int reading = ends[0];
	thread = start(reads_one, &reading);
	pause_for(20);
	CHECK(close(ends[0]) == 0 && write(ends[1], "x", 1) == 1 && joined(thread) == 1);
	FAILS(write(ends[1], "x", 1), EPIPE);
	close(ends[1]);

	/* `dup2` closes what it replaces. */
	int other[2];
	CHECK(pipe(ends) == 0 && pipe(other) == 0 && dup2(other[1], ends[1]) == ends[1]);
	CHECK(read(ends[0], text, 1) == 0 && write(ends[1], "via", 3) == 3 && read(other[0], text, 3) == 3);
	close(ends[0]), close(ends[1]), close(other[0]), close(other[1]);
	FAILS(pipe2(ends, 1 << 30), EINVAL);
	FAILS(pipe(0), EFAULT);

	/* A table without room gives none of the two. */
	int count = 0, all[1024];
	while ((all[count] = eventfd(0, 0)) >= 0) count++;
	CHECK(errno == EMFILE && count > 1000);
	close(all[--count]);
	FAILS(pipe(ends), EMFILE);
	int last = eventfd(0, 0);
	CHECK(last >= 0 && close(last) == 0);
	while (count) close(all[--count]);
}

static void pairs(void)
{
	int ends[2], value;
	char text[16] = {0};
	struct stat status;
	struct sockaddr address;
	socklen_t len = sizeof address;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	CHECK(fstat(ends[0], &status) == 0 && S_ISSOCK(status.st_mode) && fcntl(ends[0], F_GETFL) == O_RDWR);
	CHECK(getsockname(ends[0], &address, &len) == 0 && address.sa_family == AF_UNIX);
	CHECK(getpeername(ends[1], &address, &len) == 0 && address.sa_family == AF_UNIX);
	CHECK(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, &(socklen_t){4}) == 0 && value == SOCK_STREAM);
	CHECK(getsockopt(ends[0], SOL_SOCKET, SO_ERROR, &value, &(socklen_t){4}) == 0 && value == 0);
	FAILS(listen(ends[0], 1), ENOTSOCK);
	CHECK(found(ends[0], POLLIN | POLLOUT, 0) == POLLOUT);
	CHECK(send(ends[0], "there", 5, MSG_NOSIGNAL) == 5 && recv(ends[1], text, 3, MSG_PEEK) == 3);
	CHECK(recv(ends[1], text, sizeof text, 0) == 5 && !memcmp(text, "there", 5));
	struct iovec parts[2] = {{"ba", 2}, {"ck", 2}}, room = {text, sizeof text};
	CHECK(sendmsg(ends[1], &(struct msghdr){.msg_iov = parts, .msg_iovlen = 2}, 0) == 4);
	CHECK(recvmsg(ends[0], &(struct msghdr){.msg_iov = &room, .msg_iovlen = 1}, 0) == 4 && !memcmp(text, "back", 4));
	FAILS(recv(ends[0], text, 1, MSG_DONTWAIT), EAGAIN);
	/* Descriptors are not sent, and that is said; neither are the bytes that would come with them. */
	union {
		struct cmsghdr header;
		char bytes[2 * CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
	control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_TOS};
	struct cmsghdr *second = CMSG_NXTHDR(&message, &control.header);
	*second = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	FAILS(sendmsg(ends[1], &message, 0), EOPNOTSUPP);
	FAILS(sendmsg(ends[1], &message, 0), EOPNOTSUPP);
	second->cmsg_level = IPPROTO_UDP;
	FAILS(sendmsg(ends[1], &message, 0), EINVAL);
	second->cmsg_len = 1000;
	FAILS(sendmsg(ends[1], &message, 0), EINVAL);
	FAILS(recv(ends[0], text, 1, MSG_DONTWAIT), EAGAIN);
	message.msg_controllen = CMSG_SPACE(sizeof(int));
	CHECK(sendmsg(ends[1], &message, 0) == 4);
	message = (struct msghdr){.msg_iov = &room, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	CHECK(recvmsg(ends[0], &message, 0) == 4 && message.msg_controllen == 0 && !CMSG_FIRSTHDR(&message));
	FAILS(sendto(ends[0], "x", 1, 0, &address, sizeof address), EISCONN);

	pthread_t thread = start(answers, &ends[1]);
	for (int at = 0; at < 100; at++) {
		char byte = at, next = 0;
		value = write(ends[0], &byte, 1) == 1 && read(ends[0], &next, 1) == 1 && next == byte + 1;
		if (!value) break;
	}
	CHECK(value == 1 && shutdown(ends[0], SHUT_WR) == 0);
	FAILS(write(ends[0], "x", 1), EPIPE);
	CHECK(joined(thread) == 100 && read(ends[0], text, 1) == 0);
	CHECK(found(ends[0], POLLIN | POLLRDHUP, 0) == (POLLIN | POLLRDHUP | POLLHUP));
	close(ends[0]);

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
	FAILS(read(ends[0], text, 1), EAGAIN);
	CHECK(write(ends[1], "last", 4) == 4 && close(ends[1]) == 0);
	CHECK(read(ends[0], text, sizeof text) == 4 && read(ends[0], text, 1) == 0);
	FAILS(write(ends[0], "x", 1), EPIPE);
	FAILS(shutdown(ends[0], 3), EINVAL);
	close(ends[0]);
	FAILS(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), EPROTONOSUPPORT);
	FAILS(socketpair(AF_INET, SOCK_STREAM, 0, ends), EOPNOTSUPP);
}

/* Many of different kinds; `listener` may be -1. */
static void many(int listener)
{
	int ends[2], counter = eventfd(0, 0);
	CHECK(pipe(ends) == 0);
	struct pollfd wishes[4] = {
		{.fd = ends[0], .events = POLLIN},
		{.fd = counter, .events = POLLIN},
		{.fd = listener, .events = POLLIN},
		{.fd = -1, .events = POLLIN},
	};
	CHECK(poll(wishes, 4, 10) == 0 && !wishes[0].revents && !wishes[1].revents && !wishes[2].revents);
	pthread_t thread = start(writes_one, &ends[1]);
	CHECK(poll(wishes, 4, -1) == 1 && wishes[0].revents == POLLIN && joined(thread) == 1);
	thread = start(adds, &counter);
	wishes[0].events = 0;
	CHECK(poll(wishes, 4, 10000) == 1 && wishes[1].revents == POLLIN && joined(thread) == 0);
	thread = start(closes, &ends[1]);
	wishes[1].events = 0;
	CHECK(poll(wishes, 4, 10000) == 1 && wishes[0].revents == POLLHUP && joined(thread) == 0);
	wishes[3].fd = ends[1];
	CHECK(poll(wishes, 4, -1) == 2 && wishes[3].revents == POLLNVAL);

	/* select: the pipe has a byte and its end, the counter 5. */
	fd_set reads, writes;
	FD_ZERO(&reads);
	FD_ZERO(&writes);
	FD_SET(ends[0], &reads);
	FD_SET(counter, &reads);
	FD_SET(counter, &writes);
	CHECK(select(counter + 1 > ends[0] ? counter + 1 : ends[0] + 1, &reads, &writes, 0, 0) == 3);
	CHECK(FD_ISSET(ends[0], &reads) && FD_ISSET(counter, &reads) && FD_ISSET(counter, &writes));
	eventfd_t value;
	CHECK(eventfd_read(counter, &value) == 0);
	FD_CLR(ends[0], &reads);
	CHECK(select(counter + 1, &reads, 0, 0, &(struct timeval){.tv_usec = 3000}) == 0 && !FD_ISSET(counter, &reads));
	FD_SET(counter, &reads);
	thread = start(adds, &counter);
	CHECK(pselect(counter + 1, &reads, 0, 0, &(struct timespec){.tv_sec = 10}, 0) == 1 && FD_ISSET(counter, &reads));
	CHECK(joined(thread) == 0);
	FD_SET(ends[1], &reads);
	FAILS(select(64, &reads, 0, 0, 0), EBADF);
	FAILS(select(-1, 0, 0, 0, 0), EINVAL);
	CHECK(select(0, 0, 0, 0, &(struct timeval){.tv_usec = 1000}) == 0);
	close(ends[0]);
	close(counter);
}

/* A listener is ready when a connection waits in it, and a stream is writable until it is full. */
static void streams(int listener, struct sockaddr_in *address)
{
	int stream = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(found(listener, POLLIN, 5) == 0 && connect(stream, (void *)address, sizeof *address) == 0);
	CHECK(found(listener, POLLIN, 10000) == POLLIN);
	int other = accept(listener, 0, 0);
	CHECK(found(stream, POLLIN | POLLOUT, 10000) == POLLOUT && fcntl(stream, F_SETFL, O_NONBLOCK) == 0);
	while (write(stream, big, BIG) > 0)
		;
	CHECK(errno == EAGAIN && found(stream, POLLOUT, 5) == 0 && found(other, POLLIN, 10000) == POLLIN);
	close(stream);
	close(other);
}

/* Writes its own byte in two parts at a time. */
static void *in_parts(void *argument)
{
	int *to = argument;
	char part[40];
	memset(part, to[1], sizeof part);
	struct iovec list[2] = {{part, sizeof part}, {part, sizeof part}};
	for (int round = 0; round < 2000; round++)
		if (writev(to[0], list, 2) != 2 * sizeof part) return "short";
	return 0;
}

/* What is written by one call comes in one piece. */
static void whole(void)
{
	int ends[2], available = 0, mixed = 0;
	CHECK(pipe(ends) == 0);
	CHECK(write(ends[1], "four", 4) == 4 && ioctl(ends[0], FIONREAD, &available) == 0 && available == 4);
	char bytes[80];
	CHECK(read(ends[0], bytes, 80) == 4);
	int a[2] = {ends[1], 'a'}, b[2] = {ends[1], 'b'};
	pthread_t one = start(in_parts, a), other = start(in_parts, b);
	for (int round = 0; round < 4000; round++) {
		for (int got = 0, part; got < 80; got += part)
			if ((part = read(ends[0], bytes + got, 80 - got)) <= 0) break;
		for (int at = 1; at < 80; at++) mixed += bytes[at] != bytes[0];
	}
	CHECK(joined(one) == 0 && joined(other) == 0 && mixed == 0);
	close(ends[0]), close(ends[1]);
}

int main(void)
{
	whole();
	counters();
	pipes();
	pairs();
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof address;
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(listener, (void *)&address, len) == 0);
	if (listen(listener, 8) == 0) {
		CHECK(getsockname(listener, (void *)&address, &len) == 0);
		many(listener);
		streams(listener, &address);
	} else {
		CHECK(errno == EPERM);
		many(-1);
	}
	return end();
}
