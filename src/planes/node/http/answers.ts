/** The answers that the proxy itself gives, in one table: their status and the JSON `{error, reason}` that goes with it. */
import { type ServerResponse, STATUS_CODES } from "node:http";

const table = {
  malformed_request: [400, "bad_request"],
  invalid_length: [400, "bad_request"],
  invalid_host: [400, "bad_request"],
  invalid_path: [400, "bad_request"],
  no_route: [404, "not_found"],
  headers_timeout: [408, "request_timeout"],
  body_timeout: [408, "request_timeout"],
  body_too_large: [413, "content_too_large"],
  unknown_expectation: [417, "expectation_failed"],
  headers_too_large: [431, "headers_too_large"],
  internal_error: [500, "internal_error"],
  unsupported_encoding: [501, "not_implemented"],
  unsupported_method: [501, "not_implemented"],
  unsupported_upgrade: [501, "not_implemented"],
  upstream_unreachable: [502, "bad_gateway"],
  upstream_broken: [502, "bad_gateway"],
  no_target: [503, "service_unavailable"],
  draining: [503, "service_unavailable"],
  slot_lost: [503, "service_unavailable"],
  upstream_connect_timeout: [504, "gateway_timeout"],
  upstream_timeout: [504, "gateway_timeout"],
} as const;

export type Reason = keyof typeof table;

interface Answer {
  status: number;
  body: string;
}

const answers = new Map<Reason, Answer>();
for (const [reason, [status, error]] of Object.entries(table)) {
  answers.set(reason as Reason, { status, body: `${JSON.stringify({ error, reason })}\n` });
}

export function answerFor(reason: Reason): Answer {
  return answers.get(reason)!;
}

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

/** The same as bytes, for a connection on which there is no request to answer. Ends it. */
export function rawAnswer(reason: Reason): string {
  const { status, body } = answerFor(reason);
  return rawResponse(status, body, {});
}

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
