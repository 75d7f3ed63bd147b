/** Responses of the proxy itself: refusals and errors as JSON. */
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { lingerOnClose } from "../../../shared/linger.js";
import type { ClientResponse } from "./client-messages.js";

export interface JsonResponse {
  status: number;
  body: string;
  headers: Record<string, string>;
}

/** `close`: the connection is closed after the response. */
export function send(response: ClientResponse, { status, body, headers }: JsonResponse, close: boolean): void {
  const head = headFields(body, headers);
  if (close) head.push("Connection", "close");
  response.writeHead(status, head);
  response.end(body);
}

/** The same on a connection without a ServerResponse, which is closed when the client had time to read the response. */
export function sendAndClose(socket: Socket, response: JsonResponse, lingerMs: number): void {
  lingerOnClose(socket, lingerMs);
  socket.write(rawResponse(response));
  socket.destroySoon();
}

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
