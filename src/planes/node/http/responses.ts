/** Responses of the proxy itself: refusals and errors as JSON, sent so that a client that is still sending receives them. */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { lingerOnClose } from "../../../shared/linger.js";
import { type Connection, endsNow } from "../upgrade/connections.js";

export interface JsonResponse {
  status: number;
  body: string;
  headers: Record<string, string>;
}

/** `close`: the connection is closed after the response. */
export function send(response: ServerResponse, { status, body, headers }: JsonResponse, close: boolean): void {
  const head = headFields(body, headers);
  if (close) head.push("Connection", "close");
  response.writeHead(status, head);
  response.end(body);
}

/** The same as text, for a connection without a ServerResponse. The caller closes the connection. */
export function rawResponse({ status, body, headers }: JsonResponse): string {
  const head = headFields(body, headers);
  head.push("Date", new Date().toUTCString(), "Connection", "close");
  return rawHead(status, head) + body;
}

const framing = new Set(["content-type", "content-length", "connection", "transfer-encoding"]);

function headFields(body: string, headers: Record<string, string>): string[] {
  const fields = ["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(body))];
  for (const name in headers) if (!framing.has(name.toLowerCase())) fields.push(name, headers[name]!);
  return fields;
}

/** The head of a response, from a flat list of headers without line breaks. */
export function rawHead(status: number, headers: string[]): string {
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${text}\r\n`;
}

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
