/* Sockets: TCP and UDP to the program itself, options, waiting for many. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int port;

static struct sockaddr_in here(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	return address;
}

/* Connects, sends a line and reads it back. */
static void *client(void *result)
{
	struct sockaddr_in to = here(port);
	int stream = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	char text[16] = {0};
	int right = setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0
		&& connect(stream, (void *)&to, sizeof to) == 0 && write(stream, "line\n", 5) == 5
		&& shutdown(stream, SHUT_WR) == 0 && recv(stream, text, sizeof text, 0) == 5 && !strcmp(text, "line\n")
		&& read(stream, text, sizeof text) == 0 && close(stream) == 0;
	return right ? result : 0;
}

static volatile int in_use = -1, in_use_over;

/* Uses a socket that another thread closes meanwhile. */
static void *user(void *unused)
{
	while (!in_use_over) {
		int socket = in_use, value;
		if (socket < 0) continue;
		getsockopt(socket, SOL_SOCKET, SO_TYPE, &value, &(socklen_t){4});
		poll(&(struct pollfd){.fd = socket, .events = POLLIN}, 1, 0);
		recv(socket, &value, 1, MSG_DONTWAIT);
		int other = dup(socket);
		if (other >= 0) close(other);
	}
	return unused;
}

static void closed_in_use(void)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, 0, user, 0) == 0);
	int at = 0;
	for (; at < 20000; at++) {
		int one = socket(AF_INET, SOCK_DGRAM, 0);
		if (one < 0) break;
		in_use = one;
		for (volatile int wait = at % 1000; wait > 0; wait--) {}
		if (close(one)) break;
	}
	in_use_over = 1;
	CHECK(at == 20000 && pthread_join(thread, 0) == 0);
}

static char many[16 << 20];

/* Reads all that comes: how much that was. */
static void *reads_all(void *stream)
{
	static char room[65536];
	long sum = 0, part;
	while ((part = read(*(int *)stream, room, sizeof room)) > 0) sum += part;
	return (void *)sum;
}

static void *trickles(void *stream)
{
	struct timespec while_the_other_waits = {.tv_nsec = 50000000};
	int right = 1;
	for (int at = 0; at < 2; at++) {
		nanosleep(&while_the_other_waits, 0);
		right &= write(*(int *)stream, "efgh" + 2 * at, 2) == 2;
	}
	return right ? stream : 0;
}

/* The first and the last part of what is waited for come apart. */
static void all_of(int from, int to)
{
	char text[9] = {0};
	struct iovec parts[3] = {{text, 3}, {text + 3, 4}, {text + 7, 1}};
	pthread_t thread;
	void *right;
	CHECK(write(from, "abcd", 4) == 4 && pthread_create(&thread, 0, trickles, &from) == 0);
	CHECK(recv(to, text, 8, MSG_WAITALL) == 8 && !strcmp(text, "abcdefgh"));
	CHECK(pthread_join(thread, &right) == 0 && right == &from);
	memset(text, 0, sizeof text);
	CHECK(write(from, "abcd", 4) == 4 && pthread_create(&thread, 0, trickles, &from) == 0);
	CHECK(recvmsg(to, &(struct msghdr){.msg_iov = parts, .msg_iovlen = 3}, MSG_WAITALL) == 8 && !strcmp(text, "abcdefgh"));
	CHECK(pthread_join(thread, &right) == 0 && right == &from);
	/* Without waiting it is what there is. */
	CHECK(write(from, "abcd", 4) == 4 && recv(to, text, 8, MSG_WAITALL | MSG_DONTWAIT) == 4);
	CHECK(fcntl(to, F_SETFL, O_NONBLOCK) == 0);
	CHECK(write(from, "abcd", 4) == 4 && recv(to, text, 8, MSG_WAITALL) == 4 && fcntl(to, F_SETFL, 0) == 0);
	/* The sender of a stream is no address. */
	struct sockaddr_in address;
	socklen_t len = sizeof address;
	CHECK(write(from, "abcd", 4) == 4 && recvfrom(to, text, 1, 0, (void *)&address, &len) == 1 && len == 0);
	struct msghdr message = {.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = parts, .msg_iovlen = 1};
	CHECK(recvmsg(to, &message, 0) == 3 && message.msg_namelen == 0 && message.msg_flags == 0);
	/* Of less there is the end. */
	CHECK(write(from, "abcd", 4) == 4 && shutdown(from, SHUT_WR) == 0 && recv(to, text, 8, MSG_WAITALL) == 4);
	CHECK(recvmsg(to, &(struct msghdr){.msg_iov = parts, .msg_iovlen = 3}, MSG_WAITALL) == 0);
	close(from);
	close(to);
}

static void whole(void)
{
	struct sockaddr_in address = here(0);
	socklen_t len = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0), two;
	CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, 8) == 0);
	CHECK(getsockname(listener, (void *)&address, &len) == 0 && connect(one, (void *)&address, len) == 0);
	CHECK((two = accept(listener, 0, 0)) >= 0);
	pthread_t thread;
	void *sum;
	struct iovec halves[2] = {{many, 1}, {many, sizeof many}};
	CHECK(pthread_create(&thread, 0, reads_all, &two) == 0);
	CHECK(send(one, many, sizeof many, 0) == sizeof many && write(one, many, sizeof many) == sizeof many);
	CHECK(writev(one, halves, 2) == sizeof many + 1);
	CHECK(sendmsg(one, &(struct msghdr){.msg_iov = halves, .msg_iovlen = 2}, 0) == sizeof many + 1);
	CHECK(shutdown(one, SHUT_WR) == 0 && pthread_join(thread, &sum) == 0 && (long)sum == 4L * sizeof many + 2);
	/* What does not wait is short, and leaves the socket as it is. */
	ssize_t some = send(two, many, sizeof many, MSG_DONTWAIT);
	CHECK(some > 0 && some < (ssize_t)sizeof many && !(fcntl(two, F_GETFL) & O_NONBLOCK));
	close(one);
	close(two);
	one = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(one, (void *)&address, len) == 0 && (two = accept(listener, 0, 0)) >= 0);
	close(listener);
	all_of(one, two);
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	all_of(pair[0], pair[1]);
}

static struct sockaddr_in itself;
static volatile int sends;

static void *sends_without_waiting(void *socket)
{
	while (sends) {
		sendto(*(int *)socket, "x", 1, MSG_DONTWAIT, (void *)&itself, sizeof itself);
		sched_yield();
	}
	return 0;
}

/* One call does not wait, another one on the same socket does. */
static void waiting_beside(void)
{
	int one = socket(AF_INET, SOCK_DGRAM, 0), at = 0;
	socklen_t len = sizeof itself;
	char text[8];
	pthread_t thread;
	itself = here(0);
	sends = 1;
	CHECK(bind(one, (void *)&itself, len) == 0 && getsockname(one, (void *)&itself, &len) == 0);
	CHECK(pthread_create(&thread, 0, sends_without_waiting, &one) == 0);
	while (at < 20000 && recv(one, text, sizeof text, 0) == 1) at++;
	CHECK(at == 20000);
	sends = 0;
	CHECK(pthread_join(thread, 0) == 0);
	while (recv(one, text, sizeof text, MSG_DONTWAIT) == 1) {}
	FAILS(recvfrom(one, text, sizeof text, MSG_DONTWAIT, (void *)&itself, &len), EAGAIN);
	close(one);
}

/* Datagrams that are longer than the room for them. */
static void cut(void)
{
	int one = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in address = here(0), from;
	socklen_t len = sizeof address;
	char text[8] = {0};
	struct iovec parts[2] = {{text, 2}, {text + 2, 2}};
	struct msghdr message = {.msg_name = &from, .msg_namelen = len, .msg_iov = parts, .msg_iovlen = 2};
	CHECK(bind(one, (void *)&address, len) == 0 && getsockname(one, (void *)&address, &len) == 0);
	CHECK(connect(one, (void *)&address, len) == 0);
	for (int at = 0; at < 3; at++) CHECK(send(one, "0123456789", 10, 0) == 10);
	CHECK(recvmsg(one, &message, MSG_PEEK | MSG_TRUNC) == 10 && message.msg_flags == MSG_TRUNC && !strcmp(text, "0123"));
	CHECK(recv(one, text, 3, MSG_TRUNC) == 10 && recvfrom(one, text, 3, MSG_TRUNC, (void *)&from, &len) == 10);
	CHECK(from.sin_port == address.sin_port && recvmsg(one, &message, 0) == 4 && message.msg_flags == MSG_TRUNC);
	CHECK(message.msg_namelen == sizeof from && text[4] == 0);
	CHECK(send(one, "abcd", 4, 0) == 4 && recvmsg(one, &message, 0) == 4 && message.msg_flags == 0 && !strcmp(text, "abcd"));
	CHECK(send(one, "x", 1, 0) == 1 && recvmsg(one, &message, MSG_TRUNC) == 1 && message.msg_flags == 0 && text[0] == 'x');
	close(one);
}

static int number_of(int socket, int level, int option)
{
	int value = -1;
	socklen_t len = sizeof value;
	return getsockopt(socket, level, option, &value, &len) == 0 && len == sizeof value ? value : -1;
}

static int set(int socket, int level, int option, int value)
{
	return setsockopt(socket, level, option, &value, sizeof value);
}

static void options(void)
{
	int stream = socket(AF_INET, SOCK_STREAM, 0), datagrams = socket(AF_INET6, SOCK_DGRAM, 0);
	CHECK(number_of(stream, SOL_SOCKET, SO_DOMAIN) == AF_INET && number_of(stream, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
	CHECK(number_of(datagrams, SOL_SOCKET, SO_DOMAIN) == AF_INET6);
	CHECK(number_of(datagrams, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_UDP);
	int same[][2] = {{SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_REUSEPORT}, {SOL_SOCKET, SO_PRIORITY}};
	for (int at = 0; at < 3; at++) {
		CHECK(number_of(stream, same[at][0], same[at][1]) == 0 && set(stream, same[at][0], same[at][1], 1) == 0);
		CHECK(number_of(stream, same[at][0], same[at][1]) == 1);
	}
	CHECK(set(stream, IPPROTO_IP, IP_TOS, 0x10) == 0 && number_of(stream, IPPROTO_IP, IP_TOS) == 0x10);
	CHECK(number_of(stream, IPPROTO_TCP, TCP_KEEPIDLE) == 7200 && set(stream, IPPROTO_TCP, TCP_KEEPIDLE, 60) == 0);
	CHECK(number_of(stream, IPPROTO_TCP, TCP_KEEPIDLE) == 60 && set(stream, SOL_SOCKET, SO_KEEPALIVE, 1) == 0);
	CHECK(set(stream, IPPROTO_TCP, TCP_KEEPIDLE, 90) == 0 && number_of(stream, SOL_SOCKET, SO_KEEPALIVE) == 1);
	FAILS(set(stream, IPPROTO_TCP, TCP_KEEPIDLE, 0), EINVAL);
	struct linger linger = {1, 5}, none = {7, 7};
	socklen_t len = sizeof none;
	CHECK(getsockopt(stream, SOL_SOCKET, SO_LINGER, &none, &len) == 0 && len == 8 && !none.l_onoff && !none.l_linger);
	CHECK(setsockopt(stream, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
	CHECK(getsockopt(stream, SOL_SOCKET, SO_LINGER, &none, &len) == 0 && none.l_onoff == 1 && none.l_linger == 5);
	struct timeval wrong = {.tv_usec = 1000000};
	FAILS(setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &wrong, sizeof wrong), EDOM);
	wrong.tv_usec = -1;
	FAILS(setsockopt(stream, SOL_SOCKET, SO_SNDTIMEO, &wrong, sizeof wrong), EDOM);
	FAILS(setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &wrong, 8), EINVAL);
	/* Accepted: what the network decides, and what would be told in control messages. */
	static const int of_tcp[] = {TCP_CORK, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_QUICKACK, TCP_USER_TIMEOUT, TCP_MAXSEG, TCP_FASTOPEN};
	static const int of_ip[] = {IP_PKTINFO, IP_RECVTOS, IP_RECVERR, IP_MTU_DISCOVER, IP_RECVTTL};
	static const int of_ipv6[] = {IPV6_V6ONLY, IPV6_RECVPKTINFO, IPV6_RECVTCLASS, IPV6_MTU_DISCOVER, IPV6_UNICAST_HOPS};
	for (int at = 0; at < 7; at++) CHECK(set(stream, IPPROTO_TCP, of_tcp[at], 1) == 0);
	for (int at = 0; at < 5; at++) CHECK(set(datagrams, IPPROTO_IP, of_ip[at], 1) == 0 && set(stream, IPPROTO_IP, of_ip[at], 1) == 0);
	for (int at = 0; at < 5; at++) CHECK(set(datagrams, IPPROTO_IPV6, of_ipv6[at], 1) == 0);
	/* Not there: the program learns it, above all where it would send what it believes to be encrypted. */
	static const int not_there[][2] = {
		{IPPROTO_TCP, 9999}, {IPPROTO_TCP, TCP_ULP}, {IPPROTO_TCP, TCP_MD5SIG}, {IPPROTO_IP, IP_TRANSPARENT},
		{IPPROTO_IP, IP_ADD_MEMBERSHIP}, {IPPROTO_UDP, 103}, {SOL_SOCKET, 9999}, {IPPROTO_IPV6, IPV6_V6ONLY},
	};
	for (int at = 0; at < 8; at++) FAILS(set(stream, not_there[at][0], not_there[at][1], 1), ENOPROTOOPT);
	struct ipv6_mreq group = {0};
	FAILS(setsockopt(datagrams, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group), ENOPROTOOPT);
	FAILS(set(datagrams, IPPROTO_IPV6, 9999, 1), ENOPROTOOPT);
	FAILS(set(datagrams, IPPROTO_TCP, TCP_NODELAY, 1), ENOPROTOOPT);
	close(stream);
	close(datagrams);
}

static void *sends_later(void *socket)
{
	usleep(20000);
	return send(*(int *)socket, "later", 5, 0) == 5 ? socket : 0;
}

/* Several datagrams by one call. */
static void several(void)
{
	int one = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in address = here(0), from[4];
	socklen_t len = sizeof address;
	CHECK(bind(one, (void *)&address, len) == 0 && getsockname(one, (void *)&address, &len) == 0);
	CHECK(connect(one, (void *)&address, len) == 0);
	char bytes[4][8] = {"a", "bb", "ccc", "dddd"};
	struct iovec parts[4];
	struct mmsghdr list[4];
	memset(list, 0, sizeof list);
	for (int at = 0; at < 4; at++) {
		parts[at] = (struct iovec){bytes[at], at + 1};
		list[at].msg_hdr.msg_iov = &parts[at], list[at].msg_hdr.msg_iovlen = 1;
	}
	CHECK(sendmmsg(one, list, 4, 0) == 4 && list[0].msg_len == 1 && list[3].msg_len == 4);
	memset(bytes, 0, sizeof bytes);
	for (int at = 0; at < 4; at++) {
		parts[at].iov_len = 8;
		list[at].msg_hdr.msg_name = &from[at], list[at].msg_hdr.msg_namelen = sizeof from[at];
	}
	CHECK(recvmmsg(one, list, 3, 0, 0) == 3 && list[2].msg_len == 3 && !strcmp(bytes[2], "ccc") && from[2].sin_port == address.sin_port);
	/* What has come is enough: by a flag, by the time, or as nothing may be waited for. */
	CHECK(recvmmsg(one, list, 4, MSG_WAITFORONE, 0) == 1 && list[0].msg_len == 4 && !strcmp(bytes[0], "dddd"));
	CHECK(send(one, "x", 1, 0) == 1 && recvmmsg(one, list, 4, 0, &(struct timespec){0, 0}) == 1 && list[0].msg_len == 1);
	CHECK(send(one, "x", 1, 0) == 1 && recvmmsg(one, list, 4, MSG_DONTWAIT, 0) == 1);
	FAILS(recvmmsg(one, list, 4, MSG_DONTWAIT, 0), EAGAIN);
	/* Without those all are waited for. */
	pthread_t thread;
	void *right;
	CHECK(send(one, "x", 1, 0) == 1 && pthread_create(&thread, 0, sends_later, &one) == 0);
	CHECK(recvmmsg(one, list, 2, 0, 0) == 2 && list[1].msg_len == 5 && pthread_join(thread, &right) == 0 && right == &one);
	/* The first that fails ends it. */
	parts[1].iov_len = 70000;
	CHECK(sendmmsg(one, list, 4, 0) == 1 && recv(one, bytes[0], 8, 0) == 8);
	FAILS(sendmmsg(one, list + 1, 1, 0), EMSGSIZE);
	FAILS(sendmmsg(-1, list, 1, 0), EBADF);
	FAILS(recvmmsg(-1, list, 1, 0, 0), EBADF);
	FAILS(recvmmsg(one, list, 1, 0, &(struct timespec){0, -1}), EINVAL);
	close(one);
}

/* How much there is to read, and ports that are in use. */
static void waiting_and_taken(void)
{
	struct sockaddr_in address = here(0);
	socklen_t len = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0), two, count = -1;
	CHECK(ioctl(one, FIONREAD, &count) == 0 && count == 0);
	CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, 8) == 0);
	FAILS(ioctl(listener, FIONREAD, &count), EINVAL);
	CHECK(getsockname(listener, (void *)&address, &len) == 0 && connect(one, (void *)&address, len) == 0);
	CHECK((two = accept(listener, 0, 0)) >= 0 && ioctl(two, FIONREAD, &count) == 0 && count == 0);
	CHECK(send(one, many, 40000, 0) == 40000);
	while (ioctl(two, FIONREAD, &count) == 0 && count < 40000) sched_yield();
	CHECK(count == 40000 && recv(two, many, 40000, MSG_WAITALL) == 40000 && ioctl(two, FIONREAD, &count) == 0 && count == 0);
	close(one);
	close(two);
	one = socket(AF_INET, SOCK_STREAM, 0);
	FAILS(bind(one, (void *)&address, len), EADDRINUSE);
	/* It is free again, and no other has it. */
	close(listener);
	CHECK(bind(one, (void *)&address, len) == 0);
	two = socket(AF_INET, SOCK_STREAM, 0);
	FAILS(connect(two, (void *)&address, len), ECONNREFUSED);
	CHECK(listen(one, 8) == 0);
	close(one);
	close(two);
	one = socket(AF_INET, SOCK_DGRAM, 0), address = here(0);
	CHECK(bind(one, (void *)&address, len) == 0 && getsockname(one, (void *)&address, &len) == 0);
	CHECK(connect(one, (void *)&address, len) == 0 && send(one, "one", 3, 0) == 3 && send(one, "second", 6, 0) == 6);
	CHECK(ioctl(one, FIONREAD, &count) == 0 && count == 3);
	close(one);
}

int main(void)
{
	options();
	waiting_and_taken();
	closed_in_use();
	whole();
	waiting_beside();
	cut();
	several();
	struct sockaddr_in address = here(0), peer;
	socklen_t len = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), value;
	CHECK(fcntl(listener, F_GETFD) == FD_CLOEXEC);
	CHECK(listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
	FAILS(accept(listener, 0, 0), EINVAL);
	CHECK(bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
	FAILS(bind(listener, (void *)&address, sizeof address), EINVAL);
	CHECK(getsockname(listener, (void *)&address, &len) == 0 && len == sizeof address);
	CHECK((port = ntohs(address.sin_port)) > 0);
	pthread_t thread;
	void *right;
	CHECK(pthread_create(&thread, 0, client, &right) == 0);
	int stream = accept4(listener, (void *)&peer, &len, SOCK_NONBLOCK);
	CHECK(stream >= 0 && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && fcntl(stream, F_GETFL) & O_NONBLOCK);
	struct pollfd wish = {.fd = stream, .events = POLLIN};
	CHECK(poll(&wish, 1, 5000) == 1 && wish.revents == POLLIN);
	char text[16];
	CHECK(recv(stream, text, sizeof text, MSG_PEEK) == 5 && read(stream, text, sizeof text) == 5);
	/* Several buffers are one part: the peer, which receives once, gets all of them. */
	struct iovec line[3] = {{text, 2}, {text, 0}, {text + 2, 3}};
	CHECK(fcntl(stream, F_SETFL, 0) == 0 && writev(stream, line, 3) == 5 && writev(stream, line, 0) == 0);
	CHECK(getsockopt(stream, SOL_SOCKET, SO_TYPE, &value, &(socklen_t){4}) == 0 && value == SOCK_STREAM);
	CHECK(getsockopt(stream, SOL_SOCKET, SO_ERROR, &value, &(socklen_t){4}) == 0 && value == 0);
	CHECK(getpeername(stream, (void *)&peer, &len) == 0 && close(stream) == 0);
	CHECK(pthread_join(thread, &right) == 0 && right == &right);

	/* A server asks for its port before it listens. */
	struct sockaddr_in early = here(0);
	int server = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(server, (void *)&early, sizeof early) == 0 && getsockname(server, (void *)&early, &len) == 0 && early.sin_port);
	FAILS(accept(server, 0, 0), EINVAL);
	CHECK(listen(server, 8) == 0 && getsockname(server, (void *)&peer, &len) == 0 && peer.sin_port == early.sin_port);
	int asking = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(asking, (void *)&early, sizeof early) == 0 && close(accept(server, 0, 0)) == 0 && close(asking) == 0);
	/* A client may ask as well. */
	asking = socket(AF_INET, SOCK_STREAM, 0), peer = here(0);
	CHECK(bind(asking, (void *)&peer, sizeof peer) == 0 && getsockname(asking, (void *)&peer, &len) == 0);
	CHECK(connect(asking, (void *)&early, sizeof early) == 0 && close(asking) == 0 && close(server) == 0);

	CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
	FAILS(accept(listener, 0, 0), EAGAIN);
	int other = dup(listener);
	CHECK(close(listener) == 0);
	FAILS(accept(other, 0, 0), EAGAIN);
	CHECK(close(other) == 0);

	int one = socket(AF_INET, SOCK_DGRAM, 0), two = socket(AF_INET, SOCK_DGRAM, 0);
	address = here(0);
	CHECK(bind(one, (void *)&address, sizeof address) == 0 && getsockname(one, (void *)&address, &len) == 0);
	CHECK(sendto(two, "data", 4, 0, (void *)&address, sizeof address) == 4);
	CHECK(recvfrom(one, text, sizeof text, 0, (void *)&peer, &len) == 4 && peer.sin_port != 0);
	CHECK(connect(one, (void *)&peer, len) == 0);
	struct iovec parts[2] = {{"da", 2}, {"ta", 2}};
	CHECK(sendmsg(one, &(struct msghdr){.msg_iov = parts, .msg_iovlen = 2}, 0) == 4);
	struct iovec room = {text, sizeof text};
	CHECK(recvmsg(two, &(struct msghdr){.msg_iov = &room, .msg_iovlen = 1}, 0) == 4);
	/* A list of buffers is one datagram, which fills those of the other side. */
	char head[3] = {0}, tail[8] = {0};
	struct iovec halves[2] = {{head, 2}, {tail, sizeof tail}};
	CHECK(writev(one, parts, 2) == 4 && readv(two, halves, 2) == 4 && !strcmp(head, "da") && !strcmp(tail, "ta"));
	CHECK(writev(one, parts, 2) == 4 && recvmsg(two, &(struct msghdr){.msg_iov = halves, .msg_iovlen = 2}, 0) == 4);
	CHECK(!strcmp(head, "da") && !strcmp(tail, "ta"));
	static char large[40000];
	struct iovec twice[2] = {{large, sizeof large}, {large, sizeof large}};
	FAILS(writev(one, twice, 2), EMSGSIZE);
	/* A list without bytes is nothing, a message without bytes is a datagram. */
	CHECK(writev(one, parts, 0) == 0 && sendmsg(one, &(struct msghdr){0}, 0) == 0);
	CHECK(readv(two, halves, 0) == 0 && recv(two, text, sizeof text, 0) == 0);
	FAILS(sendmsg(-1, &(struct msghdr){0}, 0), EBADF);
	FAILS(recvmsg(-1, &(struct msghdr){0}, 0), EBADF);
	FAILS(recv(two, text, sizeof text, MSG_DONTWAIT), EAGAIN);
	wish = (struct pollfd){.fd = two, .events = POLLIN};
	CHECK(poll(&wish, 1, 1) == 0);
	struct timeval soon = {.tv_usec = 2000};
	CHECK(setsockopt(two, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0);
	FAILS(recv(two, text, sizeof text, 0), EAGAIN);
	close(one);
	close(two);

	FAILS(socket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(socket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT);
	FAILS(listen(1, 1), ENOTSOCK);
	int new = socket(AF_INET6, SOCK_STREAM, 0);
	FAILS(read(new, text, 1), ENOTCONN);
	FAILS(getpeername(new, (void *)&peer, &len), ENOTCONN);
	close(new);
	struct addrinfo *found, wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	CHECK(getaddrinfo("127.0.0.1", "80", &wanted, &found) == 0 && found->ai_addrlen == sizeof address);
	freeaddrinfo(found);
	CHECK(getaddrinfo("no.such.name.invalid", 0, &wanted, &found) != 0);
	return end();
}
