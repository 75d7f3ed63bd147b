/** Sends responses of the proxy itself: errors and refusals as JSON. */
import { type ServerResponse, STATUS_CODES } from "node:http";

/** Sends a whole JSON response. `headers` come on top; `close` says that the connection ends with it. */
export function send(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Record<string, string>,
  close: boolean,
): void {
  const head = ["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(body))];
  for (const name in headers) {
    if (!isFraming(name)) head.push(name, headers[name]!);
  }
  if (close) head.push("Connection", "close");
  response.writeHead(status, head);
  response.end(body);
}

const framing = new Set(["content-type", "content-length", "connection", "transfer-encoding"]);

function isFraming(name: string): boolean {
  return framing.has(name.toLowerCase());
}

/** The same as text, for a connection without a ServerResponse. The connection must be closed after it. */
export function rawResponse(status: number, body: string, headers: Record<string, string>): string {
  const head = ["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(body))];
  for (const name in headers) {
    if (!isFraming(name)) head.push(name, headers[name]!);
  }
  head.push("Date", new Date().toUTCString(), "Connection", "close");
  return rawHead(status, head) + body;
}

/** The head of a response, from a flat list of headers that hold no line breaks. */
export function rawHead(status: number, headers: string[]): string {
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n`;
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return `${text}\r\n`;
}
