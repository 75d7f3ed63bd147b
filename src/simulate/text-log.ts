/** Parsers for text logs: the combined and common formats of nginx and Apache, and the default formats of Envoy and Istio. */
import { readClfTime, readIsoTime } from "./log-times.js";
import { readDuration, readMethod, readSize } from "./log-values.js";
import type { FieldNames, LineParser, LogLine } from "./logged-request.js";

/**
 * A field is [in brackets], "quoted", name="quoted", or ends at a space. Quotes inside quotes are escaped with a
 * backslash. An unterminated quote extends to the end of the line, which also keeps the match linear.
 */
const FIELD = /\[[^\]]*\]|[^\s"]*"(?:\\.|[^"\\])*(?:"|\\?$)|\S+/g;

const fieldsOf = (text: string): string[] => text.match(FIELD) ?? [];
const isQuoted = (field: string | undefined) => field?.startsWith('"') === true;
const unquoted = (field: string) => field.replace(/^"(.*)"$/s, "$1");

/** Reads `"GET /path HTTP/1.1"`; false if it is not a request line. */
function readRequestLine(field: string | undefined, line: LogLine): boolean {
  const [, first = "", path = ""] = /^"(\S+) (.*) HTTP\/\S+"$/s.exec(field ?? "") ?? [];
  const method = readMethod(first);
  if (method === undefined) return false;
  line.method = method;
  line.path = path;
  return true;
}

function sizeOrDurationProblem({ requestBytes, responseBytes, durationMs }: LogLine): string {
  if (requestBytes < 0 || responseBytes < 0) return "a size is not an integer";
  return durationMs < 0 ? "the duration is not a number" : "";
}

/** Fields after the standard ones are named by their number, from 1 on, or by the name in name=value. */
export function createCombinedParser(names: FieldNames): LineParser {
  const { request_bytes: sent, response_bytes: received, duration } = names;

  return (text, line) => {
    const fields = fieldsOf(text);
    const at = fields.findIndex((field) => field.startsWith("["));
    if (at < 0) return "no time in brackets";
    line.timeMs = readClfTime(fields[at]!.slice(1, -1)).ms;
    if (Number.isNaN(line.timeMs)) return "the time in brackets is invalid";
    if (!readRequestLine(fields[at + 1], line)) return 'no request line like "GET / HTTP/1.1"';
    const [status, size] = [fields[at + 2], fields[at + 3]];
    if (status === undefined || size === undefined || readSize(status) < 0) {
      return "no status and response size after the request";
    }
    let rest = at + 4;
    // Referer and user agent, which the common format does not have.
    for (const end = rest + 2; rest < end && isQuoted(fields[rest]); ) rest++;
    const field = (name: string) => {
      const place = readSize(name);
      const found =
        place > 0 ? fields[rest + place - 1] : fields.find((one, i) => i >= rest && one.startsWith(`${name}=`));
      return unquoted((place > 0 ? found : found?.slice(name.length + 1)) ?? "");
    };
    line.coarse = true;
    line.atEnd = true;
    line.user = fields.slice(2, at).join(" ");
    line.field = field;
    line.requestBytes = sent === undefined ? 0 : readSize(field(sent.name));
    line.responseBytes = readSize(received === undefined ? size : field(received.name));
    // nginx writes $request_time in seconds.
    line.durationMs = duration === undefined ? 0 : readDuration(field(duration.name), duration.unitMs ?? 1000);
    return sizeOrDurationProblem(line);
  };
}

/** The quoted fields at the end of a line of Envoy, in order. */
const ENVOY_FIELDS = ["x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host"];

/** The standard fields have names; further ones are named by their number, from 1 on. */
export const parseEnvoyLine: LineParser = (text, line) => {
  const fields = fieldsOf(text);
  const [when = ""] = fields;
  if (!/^\[.*\]$/.test(when)) return "it does not begin with a time in brackets";
  const { ms, coarse } = readIsoTime(when.slice(1, -1));
  line.timeMs = ms;
  line.coarse = coarse;
  if (Number.isNaN(line.timeMs)) return "the time in brackets is invalid";
  if (!readRequestLine(fields[1], line)) return 'no request line like "GET / HTTP/1.1"';
  // Status and flags come first. Istio has three more fields before the sizes.
  const at = /^[0-9]/.test(fields[4] ?? "") ? 4 : 7;
  const [sent, received, duration] = [fields[at], fields[at + 1], fields[at + 2]];
  if (sent === undefined || received === undefined || duration === undefined) return "sizes and duration are missing";
  // The time of the upstream precedes the named fields.
  const rest = at + 4;
  // Written when the stream has ended, with the time at which it began.
  line.atEnd = false;
  line.user = "";
  line.field = (name) => {
    const place = readSize(name);
    const index = place > 0 ? ENVOY_FIELDS.length + place - 1 : ENVOY_FIELDS.indexOf(name);
    return index < 0 ? "" : unquoted(fields[rest + index] ?? "");
  };
  line.requestBytes = readSize(sent);
  line.responseBytes = readSize(received);
  line.durationMs = readDuration(duration, 1);
  return sizeOrDurationProblem(line);
};
