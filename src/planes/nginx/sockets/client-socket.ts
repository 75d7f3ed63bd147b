/**
 * Closes the connection of a client from outside of its request, for which nginx has no API: the socket is found by the
 * addresses that nginx reports for the request and the system reports for each socket of this process.
 */
import { wholeText } from "../../../core/platform.js";
import { luaString } from "../../lua/library.js";
import { clientOf } from "../../lua/limit-matches.js";
import { ffi, ngx } from "../ngx.js";

const DECLARATIONS = `
int getpeername(int fd, void *address, unsigned int *length);
int getsockname(int fd, void *address, unsigned int *length);
int inet_pton(int family, const char *text, void *into);
int shutdown(int fd, int how);
int kill(int pid, int signal);
`;

export function declareSockets(): void {
  ffi.cdef(DECLARATIONS);
}

/** As on Linux. */
const AF_INET = 2;
const AF_INET6 = 10;
const ADDRESS_BYTES = 128;
/** Descriptors are assigned from the lowest free one: after a gap of this size there are no more. */
const LARGEST_GAP = 16384;
const BOTH_WAYS = 2;

/**
 * Shuts the connections of these clients down: nginx then ends their requests as if the client had closed them. A client
 * that is connected by a Unix domain socket is not found.
 */
export function hangUp(clients: string[]): void {
  if (clients.length === 0 || ffi.os !== "Linux") return;
  const wanted: { [key: string]: boolean | undefined } = {};
  for (const client of clients) wanted[client] = true;
  const address = ffi.new("uint8_t[?]", ADDRESS_BYTES);
  const length = ffi.new("unsigned int[1]");
  let gap = 0;
  for (let descriptor = 0; gap < LARGEST_GAP; descriptor++) {
    length[0] = ADDRESS_BYTES;
    if (ffi.C.getpeername(descriptor, address, length) === 0) {
      gap = 0;
      const peer = addressKey(address);
      length[0] = ADDRESS_BYTES;
      ffi.C.getsockname(descriptor, address, length);
      if (wanted[`${peer} ${portText(address)}`] === true) ffi.C.shutdown(descriptor, BOTH_WAYS);
    } else {
      gap = gap + 1;
    }
  }
}

/**
 * In a request: its client's address and port, and the port of nginx, in the form of `addressKey`. Behind the realip module,
 * those of the connection. Empty for a Unix domain socket.
 */
export function currentSocket(): string {
  const ip = ngx.var.realip_remote_addr ?? ngx.var.remote_addr ?? "";
  const port = ngx.var.realip_remote_port ?? ngx.var.remote_port ?? "";
  const isV6 = luaString.find(ip, ":", 1, true) !== undefined;
  const bytes = ffi.new("uint8_t[?]", ADDRESS_BYTES);
  if (ffi.C.inet_pton(isV6 ? AF_INET6 : AF_INET, ip, bytes) !== 1) return "";
  return `${bytesText(bytes, 0, isV6 ? 16 : 4)}${port} ${ngx.var.server_port ?? ""}`;
}

/** In a request: its client as connections are counted. */
export function currentClient(): string {
  const isHop = ngx.var.tollgate_trusted === "1";
  return clientOf(ngx.var.remote_addr ?? "", ngx.var.http_x_forwarded_for ?? "", isHop);
}

/** A `sockaddr_in` or `sockaddr_in6` as text. */
function addressKey(address: { [index: number]: number }): string {
  const isV6 = address[0]! + address[1]! * 256 === AF_INET6;
  return bytesText(address, isV6 ? 8 : 4, isV6 ? 16 : 4) + portText(address);
}

function portText(address: { [index: number]: number }): string {
  return wholeText(address[2]! * 256 + address[3]!);
}

function bytesText(bytes: { [index: number]: number }, from: number, count: number): string {
  let text = "";
  for (let i = from; i < from + count; i++) text = `${text + wholeText(bytes[i]!)}.`;
  return text;
}

/** The process exists but belongs to another user, as workers may after a reload. */
const EPERM = 1;

export function isAlive(pid: number): boolean {
  return ffi.C.kill(pid, 0) === 0 || ffi.errno() === EPERM;
}
