/** Parsers for text logs: the combined and common formats of nginx and Apache, and the default formats of Envoy and Istio. */
import { readClfTime, readIsoTime, readNumber } from "./log-values.js";
import type { FieldNames, LineParser } from "./logged-request.js";

/**
 * A field is [in brackets], "quoted", name="quoted", or ends at a space. Quotes inside quotes are escaped with a
 * backslash. An unterminated quote extends to the end of the line, which also keeps the match linear.
 */
const FIELD = /\[[^\]]*\]|[^\s"]*"(?:\\.|[^"\\])*(?:"|\\?$)|\S+/g;
const REQUEST_LINE = /^"(\S+) (.*) HTTP\/\S+"$/s;
const NO_REQUEST_LINE = 'no request line like "GET / HTTP/1.1"';

const fieldsOf = (text: string): string[] => text.match(FIELD) ?? [];
const isQuoted = (field: string | undefined) => field?.startsWith('"') === true;
const unquoted = (field: string) => field.replace(/^"(.*)"$/s, "$1");

/** Fields after the standard ones are named by their number, from 1 on, or by the name in name=value. */
export function createCombinedParser(names: FieldNames): LineParser {
  return (text) => {
    const fields = fieldsOf(text);
    const at = fields.findIndex((field) => field.startsWith("["));
    if (at < 0) return "no time in brackets";
    const [, method = "", path = ""] = REQUEST_LINE.exec(fields[at + 1] ?? "") ?? [];
    if (method === "") return NO_REQUEST_LINE;
    const [status, size] = [fields[at + 2], fields[at + 3]];
    if (size === undefined || Number.isNaN(readNumber(status))) return "no status and response size after the request";
    let rest = at + 4;
    // Referer and user agent, which the common format does not have.
    for (const end = rest + 2; rest < end && isQuoted(fields[rest]); ) rest++;
    const field = (name: string) => {
      const place = readNumber(name);
      if (place > 0) return unquoted(fields[rest + place - 1] ?? "");
      const found = fields.find((one, i) => i >= rest && one.startsWith(`${name}=`));
      return unquoted(found?.slice(name.length + 1) ?? "");
    };
    const given = (name: "request_bytes" | "response_bytes" | "duration") =>
      names[name] === undefined ? undefined : field(names[name].name);
    return {
      time: readClfTime(fields[at]!.slice(1, -1)),
      atEnd: true,
      method,
      path,
      user: fields.slice(2, at).join(" "),
      address: names.address === undefined ? (fields[0] ?? "") : field(names.address.name),
      requestBytes: given("request_bytes"),
      responseBytes: given("response_bytes") ?? size,
      duration: given("duration"),
      // nginx writes $request_time in seconds.
      unitMs: names.duration?.unitMs ?? 1000,
      field,
    };
  };
}

/** The quoted fields at the end of a line of Envoy, in order. */
const ENVOY_FIELDS = ["x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host"];

/** The standard fields have names; further ones are named by their number, from 1 on. */
export const parseEnvoyLine: LineParser = (text) => {
  const fields = fieldsOf(text);
  const [when = ""] = fields;
  if (!/^\[.*\]$/.test(when)) return "it does not begin with a time in brackets";
  const [, method = "", path = ""] = REQUEST_LINE.exec(fields[1] ?? "") ?? [];
  if (method === "") return NO_REQUEST_LINE;
  // Status and flags come first. Istio has three more fields before the sizes.
  const at = /^[0-9]/.test(fields[4] ?? "") ? 4 : 7;
  const [requestBytes, responseBytes, duration] = fields.slice(at);
  if (duration === undefined) return "sizes and duration are missing";
  // The time of the upstream precedes the named fields.
  const rest = at + 4;
  return {
    time: readIsoTime(when.slice(1, -1)),
    // Written when the stream has ended, with the time at which it began.
    atEnd: false,
    method,
    path,
    user: "",
    // The client is the last address that a proxy added.
    address: (
      unquoted(fields[rest] ?? "")
        .split(",")
        .at(-1) ?? ""
    ).trim(),
    requestBytes,
    responseBytes,
    duration,
    unitMs: 1,
    field(name) {
      const place = readNumber(name);
      const index = place > 0 ? ENVOY_FIELDS.length + place - 1 : ENVOY_FIELDS.indexOf(name);
      return index < 0 ? "" : unquoted(fields[rest + index] ?? "");
    },
  };
};
