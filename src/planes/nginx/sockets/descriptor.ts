/** The socket of a client below nginx: probed when it is silent, and ended from outside of its request. */
import { ffi, type RequestPointer } from "../ngx.js";

/** The first words of two structures of nginx, which have been the same since 0.8: enough to find the descriptor. */
const SOCKET_DECLARATIONS = `
typedef struct { void *data; void *read; void *write; int fd; } tollgate_connection;
typedef struct { uint32_t signature; tollgate_connection *connection; } tollgate_request;
int shutdown(int fd, int how);
int setsockopt(int fd, int level, int name, const void *value, unsigned int length);
int kill(int pid, int signal);
`;
/** "HTTP", by which nginx itself knows a request. */
const SIGNATURE = 0x50545448;

export const NO_DESCRIPTOR = -1;

export function declareSockets(): void {
  ffi.cdef(SOCKET_DECLARATIONS);
}

/** NO_DESCRIPTOR where the memory does not look as it should. */
export function descriptorOf(request: RequestPointer): number {
  const seen = ffi.cast("tollgate_request *", request);
  if (seen.signature !== SIGNATURE) return NO_DESCRIPTOR;
  return seen.connection.fd;
}

const BOTH_WAYS = 2;

/** Nothing passes any more: nginx finds both ends closed, and ends the request in its own way. */
export function hangUp(descriptor: number): void {
  if (descriptor !== NO_DESCRIPTOR) ffi.C.shutdown(descriptor, BOTH_WAYS);
}

/** As Linux numbers them. */
const SOL_SOCKET = 1;
const SO_KEEPALIVE = 9;
const IPPROTO_TCP = 6;
const TCP_KEEPIDLE = 4;
const TCP_KEEPINTVL = 5;
const TCP_KEEPCNT = 6;
const PROBES = 3;

function setOption(descriptor: number, level: number, name: number, value: number): void {
  const memory = ffi.new("int[1]") as { [index: number]: number };
  memory[0] = value;
  ffi.C.setsockopt(descriptor, level, name, memory, 4);
}

/** A peer that is silent for so long is asked whether it is still there; one that is gone ends the connection. */
export function probe(descriptor: number, silentMs: number): void {
  if (descriptor === NO_DESCRIPTOR || silentMs === 0 || ffi.os !== "Linux") return;
  const seconds = Math.max(Math.ceil(silentMs / 1000), 1);
  setOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, Math.max(Math.ceil(seconds / PROBES), 1));
  setOption(descriptor, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
}

/** It is there, but of another user: since a reload, workers may be. */
const EPERM = 1;

export function isAlive(pid: number): boolean {
  return ffi.C.kill(pid, 0) === 0 || ffi.errno() === EPERM;
}
