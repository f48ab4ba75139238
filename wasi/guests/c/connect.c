/* A client in C for WASI's preview 1: it connects to what its arguments name, and prints what comes of it, so that a test can compare.
 *
 *   say=HOST:PORT      says something, ends its direction, and prints the answer
 *   soon=HOST:PORT     the same if it is connected soon
 *   later=HOST:PORT    begins to connect, and waits for it by itself
 *   name=NAME          the addresses of a name */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "monohull.h"
#include "monohull-wasi.h"

enum { SOON = 50 };

static const char *name_of(int error) {
    switch (error) {
    case EAGAIN: return "EAGAIN";
    case ECONNREFUSED: return "ECONNREFUSED";
    case EINVAL: return "EINVAL";
    case ENOENT: return "ENOENT";
    case EPERM: return "EPERM";
    case ETIMEDOUT: return "ETIMEDOUT";
    default: return strerror(error);
    }
}

/* What has failed, and why, if the system says more. */
static void print_failure(const char *what, int error) {
    char why[256];
    monohull_last_error(why, sizeof why);
    printf("%s: %s%s%s\n", what, name_of(error), error == EPERM ? ": " : "", error == EPERM ? why : "");
}

/* Cuts the port off. */
static unsigned port_of(char *host) {
    char *colon = strrchr(host, ':');
    if (colon == NULL) exit(2);
    *colon = 0;
    return (unsigned)strtoul(colon + 1, NULL, 10);
}

static void say(int connection, const char *what) {
    static const char text[] = "hello";
    char answer[256];
    ssize_t length = 0, bytes;
    if (send(connection, text, sizeof text - 1, 0) != sizeof text - 1 || shutdown(connection, SHUT_WR) < 0) {
        printf("%s: saying: %s\n", what, strerror(errno));
        return;
    }
    while ((bytes = read(connection, answer + length, sizeof answer - length)) > 0)
        length += bytes;
    printf("%s: %.*s\n", what, (int)length, bytes < 0 ? strerror(errno) : answer);
}

static void connect_and_say(const char *what, char *host, int milliseconds) {
    unsigned port = port_of(host);
    int connection = monohull_connect(host, port, milliseconds);
    if (connection < 0) {
        print_failure(what, errno);
        return;
    }
    say(connection, what);
    close(connection);
}

static void connect_later(const char *what, char *host) {
    struct monohull_socket_address to = {.family = 4, .port = port_of(host)}, peer;
    if (inet_pton(AF_INET, host, to.address) != 1) exit(2);
    int connection, error = monohull_socket_connect(&to, &connection);
    if (error) {
        print_failure(what, error);
        return;
    }
    int type;
    socklen_t length = sizeof type;
    if (getsockopt(connection, SOL_SOCKET, SO_TYPE, &type, &length) < 0 || type != SOCK_STREAM) printf("%s: no stream\n", what);
    if (!(fcntl(connection, F_GETFL) & O_NONBLOCK)) printf("%s: it waits\n", what);
    struct pollfd polled = {.fd = connection, .events = POLLOUT};
    if (poll(&polled, 1, -1) != 1 || !(polled.revents & POLLOUT)) printf("%s: not ready\n", what);
    error = monohull_socket_failure(connection);
    if (error) {
        /* It is told once. */
        printf("%s: %s, then %d\n", what, name_of(error), monohull_socket_failure(connection));
    } else {
        char answer;
        if (recv(connection, &answer, 1, 0) >= 0 || errno != EAGAIN) printf("%s: it does not wait\n", what);
        if (monohull_socket_address(connection, 1, &peer) || memcmp(&peer, &to, sizeof peer)) printf("%s: another side\n", what);
        fcntl(connection, F_SETFL, 0);
        say(connection, what);
    }
    close(connection);
}

static void look_up(const char *what, const char *name) {
    struct monohull_socket_address found[MONOHULL_LOOKUP_MAX];
    uint32_t count = 0;
    int error = monohull_lookup(name, strlen(name), found, MONOHULL_LOOKUP_MAX, &count);
    if (error) {
        print_failure(what, error);
        return;
    }
    printf("%s:", what);
    for (uint32_t at = 0; at < count; at++) {
        char text[64];
        inet_ntop(found[at].family == 4 ? AF_INET : AF_INET6, found[at].address, text, sizeof text);
        printf(" %s", text);
    }
    printf("\n");
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int at = 1; at < count; at++) {
        char *what = arguments[at], *value = strchr(what, '=');
        if (value == NULL) return 2;
        *value++ = 0;
        if (strcmp(what, "say") == 0)
            connect_and_say(what, value, -1);
        else if (strcmp(what, "soon") == 0)
            connect_and_say(what, value, SOON);
        else if (strcmp(what, "later") == 0)
            connect_later(what, value);
        else if (strcmp(what, "name") == 0)
            look_up(what, value);
        else
            return 2;
    }
    return 0;
}
