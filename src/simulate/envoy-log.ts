/** Reads Envoy's default format, and Istio's, which has three fields more. */
import { fieldAt, readAmount, readDuration, readRequestLine } from "./log-fields.js";
import type { TimeReader } from "./log-times.js";
import type { LineParser } from "./logged-request.js";

/** The quoted fields at the end of a line, in order. */
const QUOTED = ["x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host"];

export function createEnvoyParser(time: TimeReader): LineParser {
  let rest = "";

  function field(name: string): string {
    // The first of them is how long the upstream took.
    const number = readAmount(name);
    const place = number > 0 ? QUOTED.length + number : QUOTED.indexOf(name) + 1;
    return place > 0 ? fieldAt(rest, place) : "";
  }

  return (text, line) => {
    const close = text.indexOf("] ");
    if (text.charCodeAt(0) !== 0x5b || close < 0) return "it does not begin with a time in brackets";
    line.timeMs = time.iso(text.slice(1, close));
    if (Number.isNaN(line.timeMs)) return "the time in brackets is none";
    line.coarse = time.coarse;
    // The line is written when the stream has ended, but tells when it began.
    line.atEnd = false;
    const end = readRequestLine(text, close + 2, line);
    if (end < 0) return 'there is no request like "GET / HTTP/1.1"';
    let at = after(text, after(text, end + 1));
    // Status and flags are behind; Istio has two details and a quoted reason before the sizes.
    if (!isAmount(text, at)) at = afterQuoted(text, after(text, after(text, at)));
    const sentAt = after(text, at);
    const durationAt = after(text, sentAt);
    const lastAt = after(text, durationAt);
    if (lastAt > text.length) return "sizes and duration are missing";
    line.requestBytes = readAmount(text.slice(at + 1, sentAt));
    line.responseBytes = readAmount(text.slice(sentAt + 1, durationAt));
    if (line.requestBytes < 0 || line.responseBytes < 0) return "a size is no whole number";
    line.durationMs = readDuration(text.slice(durationAt + 1, lastAt), 1);
    if (line.durationMs < 0) return "the duration is no number";
    line.user = "";
    rest = text.slice(lastAt);
    line.field = field;
    return "";
  };
}

/** The blank after the field that begins behind the blank at `at`; beyond the end where there is no field. */
function after(text: string, at: number): number {
  if (at >= text.length) return text.length + 1;
  const next = text.indexOf(" ", at + 1);
  return next < 0 ? text.length : next;
}

function afterQuoted(text: string, at: number): number {
  if (text.charCodeAt(at + 1) !== 0x22) return after(text, at);
  const close = text.indexOf('" ', at + 2);
  return close < 0 ? text.length + 1 : close + 1;
}

function isAmount(text: string, at: number): boolean {
  const code = text.charCodeAt(at + 1);
  return code >= 0x30 && code <= 0x39;
}
