/*
 * Whether a pod accepts TCP connections, asked by the main thread before it answers an upgrade: Envoy does not let a filter send
 * an upgrade to another pod when the first cannot be reached. Nothing blocks.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tollgate.h"

/* Also in pod-checks.ts. UNKNOWN: for reasons of this machine, such as too many open files. Envoy may try. */
enum { DIALED_PENDING = 0, DIALED_REACHED = 1, DIALED_UNREACHED = 2, DIALED_UNKNOWN = 3 };

enum { LONGEST_ADDRESS = 63 };

/* Of `1.2.3.4:80` or `[::1]:80`; 0: it is neither. */
static socklen_t parse(const char *text, size_t size, struct sockaddr_storage *result) {
  char host[LONGEST_ADDRESS + 1];
  if (size > LONGEST_ADDRESS) return 0;
  memcpy(host, text, size);
  host[size] = '\0';
  memset(result, 0, sizeof *result);
  char *colon = strrchr(host, ':');
  if (colon == NULL) return 0;
  *colon = '\0';
  in_port_t port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
  size_t length = strlen(host);
  if (host[0] == '[' && host[length - 1] == ']') {
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)result;
    host[length - 1] = '\0';
    six->sin6_family = AF_INET6;
    six->sin6_port = port;
    return inet_pton(AF_INET6, host + 1, &six->sin6_addr) == 1 ? sizeof *six : 0;
  }
  struct sockaddr_in *four = (struct sockaddr_in *)result;
  four->sin_family = AF_INET;
  four->sin_port = port;
  return inet_pton(AF_INET, host, &four->sin_addr) == 1 ? sizeof *four : 0;
}

static int outcome_of(int error) {
  switch (error) {
    case 0:
      return DIALED_REACHED;
    case EINPROGRESS:
      return DIALED_PENDING;
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT:
      return DIALED_UNREACHED;
    default:
      return DIALED_UNKNOWN;
  }
}

/* Called by Lua. */

/* Begins a connection, to be ended by tollgate_hang_up. It has failed at once: -1 for DIALED_UNKNOWN, -2 for DIALED_UNREACHED. */
FOR_LUA int tollgate_dial(struct state *state, const char *address, size_t size) {
  (void)state;
  struct sockaddr_storage target;
  socklen_t length = parse(address, size, &target);
  if (length == 0) return -1;
  int dialed = socket(target.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (dialed < 0) return -1;
  if (connect(dialed, (struct sockaddr *)&target, length) == 0 || errno == EINPROGRESS) return dialed;
  int outcome = outcome_of(errno);
  close(dialed);
  return outcome == DIALED_UNREACHED ? -2 : -1;
}

FOR_LUA int tollgate_dialed(struct state *state, int dialed) {
  (void)state;
  struct pollfd look = {dialed, POLLOUT, 0};
  int ready = poll(&look, 1, 0);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return DIALED_PENDING;
  int error = 0;
  socklen_t length = sizeof error;
  if (ready < 0 || getsockopt(dialed, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return DIALED_UNKNOWN;
  return outcome_of(error);
}

/* By a reset, which leaves no port of this machine waiting. */
FOR_LUA void tollgate_hang_up(struct state *state, int dialed) {
  (void)state;
  struct linger none = {1, 0};
  setsockopt(dialed, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  close(dialed);
}
