/** Responses that are sent before the whole request was read, so that a client that is still sending receives them. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { lingerOnClose } from "../../../shared/linger.js";
import { type Connection, endsNow } from "../upgrade/connections.js";
import { type JsonResponse, send } from "./responses.js";

/** Up to this size the body of a refused request is read and discarded, so that the connection can be reused. */
const MAX_DISCARDED = 65_536;

export interface EarlyResponse extends JsonResponse {
  /** The request is valid: a small body is still read. */
  keepReading: boolean;
  /** Close the connection in any case. */
  last: boolean;
}

export interface UnfinishedRequest {
  connection: Connection;
  request: IncomingMessage;
  response: ServerResponse;
  /** The declared length of the body. */
  contentLength: number;
  expectsContinue: boolean;
  lingerMs: number;
  /** Called when it is known whether the connection stays open, before the response is sent. */
  end(): void;
}

/** Responds before the whole request was read. */
export function respondEarly(
  { connection, request, response, contentLength, expectsContinue, lingerMs, end }: UnfinishedRequest,
  early: EarlyResponse,
): void {
  const short = contentLength >= 0 && contentLength <= MAX_DISCARDED && !expectsContinue;
  const unread = contentLength !== 0 && !request.complete;
  if (unread && !(early.keepReading && short)) closeSlowly(connection, lingerMs);
  end();
  const close = endsNow(connection) || early.last;
  if (close) connection.lastAnswered = true;
  send(response, early, close);
  if (unread) request.resume();
}

/** Closes the connection after the next response, when the client had time to read it. */
export function closeSlowly(connection: Connection, lingerMs: number): void {
  connection.closing = true;
  lingerOnClose(connection.socket, lingerMs);
}

/** Aborts a response. In HTTP/1.0 the end of the connection would look like the end of the body, a reset does not. */
export function abort(connection: Connection, request: IncomingMessage): void {
  if (request.httpVersionMinor === 0) connection.socket.resetAndDestroy();
  else connection.socket.destroy();
}
