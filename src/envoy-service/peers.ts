/** The connections of the listener for Envoy, and how many there may be. Those that have shown no credentials are few. */
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { createPeerTurns, type PeerTurn } from "../shared/access/peer-turns.js";
import { networkOf, plainAddress } from "../shared/addresses.js";
import { type Clock, systemClock } from "../shared/clock.js";
import type { AccessCheck, AccessChecks } from "./access.js";
import type { BufferShare } from "./buffers.js";

export interface Peer {
  check: AccessCheck;
  buffers: BufferShare;
  /** Unset for HTTP/1.1, and until the first bytes have arrived. */
  session?: ServerHttp2Session;
  hasProtocol: boolean;
  /** A request that needs access has been accepted. */
  isAuthorized: boolean;
  /** Its address may call nothing but health checks. */
  isOutsider: boolean;
  /**
   * A request that is denied, or that needs no credentials: calls `proceed` when it is the peer's turn. If too many of its requests
   * wait, the connection is closed.
   */
  inTurn(request: Readable, proceed: () => void): void;
}

/** When there are more connections without an authorized request, the oldest of them is closed. */
const MAX_UNAUTHORIZED = 256;
/** Connections from addresses that are not allowed. Further ones are closed at once. */
const MAX_OUTSIDERS = 16;

export interface PeersOptions {
  access: AccessChecks;
  /** Read for each connection. */
  maxConnections(): number;
  buffersFor(): BufferShare;
  clock?: Clock | undefined;
}

export function createPeers({ access, maxConnections, buffersFor, clock = systemClock }: PeersOptions) {
  const turns = createPeerTurns(clock);
  const all = new Map<Socket, Peer>();
  /** In the order in which they were opened. */
  const unauthorized = new Set<Socket>();
  let outsiders = 0;

  function closed(socket: Socket, peer: Peer): void {
    all.delete(socket);
    unauthorized.delete(socket);
    if (peer.isOutsider) outsiders--;
  }

  return {
    all: all as ReadonlyMap<Socket, Peer>,
    /** Undefined: the connection was closed because there are too many. */
    accept(socket: Socket): Peer | undefined {
      const address = socket.remoteAddress ?? "";
      const isOutsider = !access.isAllowed(address);
      const network = networkOf(plainAddress(address));
      if (all.size >= maxConnections() || (isOutsider && outsiders >= MAX_OUTSIDERS) || turns.isFull(network)) {
        socket.destroy();
        return undefined;
      }
      const check = access.forConnection(socket);
      const peer: Peer = {
        buffers: buffersFor(),
        hasProtocol: false,
        isAuthorized: false,
        isOutsider,
        inTurn(request, proceed) {
          let ended = () => {};
          request.once("close", () => ended());
          const begin = (turn: PeerTurn | undefined) => {
            if (turn === undefined) {
              if (!request.destroyed) socket.destroy();
              return;
            }
            ended = () => turn.end(0);
            if (request.destroyed) ended();
            else proceed();
          };
          const next = turns.next(network, (stopWaiting) => {
            ended = stopWaiting;
          });
          if (next instanceof Promise) void next.then(begin);
          else begin(next);
        },
        check(authorization) {
          const denial = check(authorization);
          if (denial === undefined && !peer.isAuthorized) {
            peer.isAuthorized = true;
            unauthorized.delete(socket);
          }
          return denial;
        },
      };
      all.set(socket, peer);
      unauthorized.add(socket);
      if (isOutsider) outsiders++;
      socket.on("close", () => closed(socket, peer));
      if (unauthorized.size > MAX_UNAUTHORIZED) {
        const [oldest] = unauthorized;
        oldest?.destroy();
      }
      return peer;
    },
  };
}
