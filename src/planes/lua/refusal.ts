/** A refusal in the words of src/limiter/response.ts: its status, when to come again, and its body. */
import { INVALID_ARGUMENT, INVALID_IDENTITY, STORE_UNAVAILABLE, UNKNOWN_APP } from "../../core/codes.js";
import { wholeText } from "../../core/platform.js";

export function retryAfterSeconds(retryAfterMs: number): number {
  return retryAfterMs <= 0 ? 0 : Math.max(Math.ceil(retryAfterMs / 1000), 1);
}

export function refusalStatus(code: string): number {
  if (code === STORE_UNAVAILABLE) return 503;
  if (code === INVALID_ARGUMENT || code === INVALID_IDENTITY) return 400;
  return code === UNKNOWN_APP ? 403 : 429;
}

function errorOf(status: number): string {
  if (status === 503) return "service_unavailable";
  if (status === 400) return "bad_request";
  return status === 403 ? "forbidden" : "rate_limit_exceeded";
}

/** Names nothing that the client said, but for the app it was found to be. */
export function refusalBody(code: string, app: string, retryAfter: number, remaining: number, limit: number): string {
  return (
    '{"error":"' +
    errorOf(refusalStatus(code)) +
    '","reason":"' +
    code +
    '","app_id":"' +
    app +
    '","retry_after":' +
    wholeText(retryAfter) +
    ',"remaining":' +
    wholeText(remaining) +
    ',"limit":' +
    wholeText(limit) +
    "}"
  );
}

/** Of a request whose head is no good. */
export function headRefusalBody(error: string, reason: string): string {
  return `{"error":"${error}","reason":"${reason}"}\n`;
}
