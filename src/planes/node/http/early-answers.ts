/** Answers before their time: to a client that may still be sending, and that shall read the answer nevertheless. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { lingerOnClose } from "../../../shared/linger.js";
import { type Connection, endsNow } from "../upgrade/connections.js";
import { send } from "./answers.js";

/** Bodies up to this size are read to their end after a refusal, so that the connection can be used again. */
const WORTH_READING = 65_536;

export interface EarlyAnswer {
  status: number;
  body: string;
  headers: Record<string, string>;
  /** The client did nothing wrong, so that a small body may still come. */
  patient: boolean;
  /** The connection ends with it in any case. */
  last: boolean;
}

export interface Asked {
  connection: Connection;
  request: IncomingMessage;
  response: ServerResponse;
  /** The declared length of the body. */
  contentLength: number;
  expectsContinue: boolean;
  lingerMs: number;
}

/** `ending` is called when it is settled whether the connection stays, and before the answer is sent. */
export function answerEarly(
  { connection, request, response, contentLength, expectsContinue, lingerMs }: Asked,
  { status, body, headers, patient, last }: EarlyAnswer,
  ending: () => void,
): void {
  const short = contentLength >= 0 && contentLength <= WORTH_READING && !expectsContinue;
  const unread = contentLength !== 0 && !request.complete;
  if (unread && !(patient && short)) closeSlowly(connection, lingerMs);
  ending();
  const ends = endsNow(connection) || last;
  if (ends) connection.lastAnswered = true;
  send(response, status, body, headers, ends);
  if (unread) request.resume();
}

/** The connection ends with the next answer, but not before the client can have read it. */
export function closeSlowly(connection: Connection, lingerMs: number): void {
  connection.closing = true;
  lingerOnClose(connection.socket, lingerMs);
}

/** A body that ends where the connection ends would look complete; a reset does not. */
export function cut(connection: Connection, request: IncomingMessage): void {
  if (request.httpVersionMinor === 0) connection.socket.resetAndDestroy();
  else connection.socket.destroy();
}
