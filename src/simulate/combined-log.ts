/** Reads nginx's combined format, Apache's, and the common format without the last two fields; more fields may follow. */
import { closingQuote, fieldAt, namedField, readAmount, readDuration, readRequestLine } from "./log-fields.js";
import type { TimeReader } from "./log-times.js";
import type { LineParser, LogLine } from "./logged-request.js";

/** Where in the fields after the standard ones something stands: a number from 1 on, or the name in name=value. */
export interface ExtraFields {
  requestBytes?: string | undefined;
  responseBytes?: string | undefined;
  duration?: { name: string; unitMs: number } | undefined;
}

/** Letters of 28/Jul/2026:12:00:00 +0200. */
const TIME_LENGTH = 26;

export function createCombinedParser(time: TimeReader, extra: ExtraFields = {}): LineParser {
  const { requestBytes, responseBytes, duration } = extra;
  let rest = "";

  function field(name: string): string {
    const place = readAmount(name);
    return place > 0 ? fieldAt(rest, place - 1) : namedField(rest, name);
  }

  function readExtra(line: LogLine): string {
    if (requestBytes !== undefined) line.requestBytes = readAmount(field(requestBytes));
    if (responseBytes !== undefined) line.responseBytes = readAmount(field(responseBytes));
    if (duration !== undefined) line.durationMs = readDuration(field(duration.name), duration.unitMs);
    if (line.requestBytes < 0 || line.responseBytes < 0) return "a size is no whole number";
    return line.durationMs < 0 ? "the duration is no number" : "";
  }

  return (text, line) => {
    const open = text.indexOf(" [");
    const close = open + 2 + TIME_LENGTH;
    if (open < 0 || text.charCodeAt(close) !== 0x5d) return "there is no time in brackets";
    line.timeMs = time.clf(text.slice(open + 2, close));
    if (Number.isNaN(line.timeMs)) return "the time in brackets is none";
    line.coarse = true;
    line.atEnd = true;
    const userAt = text.indexOf(" ", text.indexOf(" ") + 1) + 1;
    line.user = userAt > 0 && userAt <= open ? text.slice(userAt, open) : "";
    const end = readRequestLine(text, close + 2, line);
    if (end < 0) return 'there is no request like "GET / HTTP/1.1"';
    // A space, three digits of status, a space, and the size of the response's body.
    const sizeAt = text.indexOf(" ", end + 2) + 1;
    if (sizeAt === 0 || readAmount(text.slice(end + 2, sizeAt - 1)) < 0) return "there are no status and response size";
    let sizeEnd = text.indexOf(" ", sizeAt);
    if (sizeEnd < 0) sizeEnd = text.length;
    line.responseBytes = readAmount(text.slice(sizeAt, sizeEnd));
    if (line.responseBytes < 0) return "the response size is no whole number";
    line.requestBytes = 0;
    line.durationMs = 0;
    // Of the rest nothing is looked at unless somebody asks.
    rest = afterQuotes(text, sizeEnd);
    line.field = field;
    return requestBytes === undefined && responseBytes === undefined && duration === undefined ? "" : readExtra(line);
  };
}

/** What follows the two quoted fields, referer and user agent; all of it where there are none. */
function afterQuotes(text: string, from: number): string {
  let at = from;
  for (let i = 0; i < 2; i++) {
    if (text.charCodeAt(at + 1) !== 0x22) return text.slice(at);
    at = closingQuote(text, at + 2) + 1;
    if (at === 0) return "";
  }
  return text.slice(at);
}
