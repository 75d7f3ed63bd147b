/** Which requests leave HTTP: only those that a route takes. Any other wish for a protocol stays a request, or is refused. */

import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { splitText } from "../../../core/platform.js";
import { luaString, luaTable } from "../../lua/library.js";
import { refuseHead } from "../http/response.js";
import { ngx } from "../ngx.js";
import { ofLastPod } from "./pods.js";

/** The method that an upgrade is priced as: a connection may move gigabytes, and requests must not be expected to. */
export const UPGRADE = "UPGRADE";

/** nginx came back because no pod answered: see `error_page` in the location. Requests of HTTP are not tried again. */
export function isSecondTry(): boolean {
  return ngx.req.is_internal() && ofLastPod("upstream_header_time") === "-";
}

export function failedStatus(): number {
  return ofLastPod("upstream_status") === "504" ? 504 : 502;
}

function trimmed(text: string): string {
  return luaString.match(text, "^%s*(.-)%s*$") ?? "";
}

function asksToSwitch(): boolean {
  const connection = ngx.var.http_connection;
  if (connection === undefined || ngx.var.server_protocol !== "HTTP/1.1") return false;
  for (const word of splitText(luaString.lower(connection), ",")) if (trimmed(word) === "upgrade") return true;
  return false;
}

/** A version, as in `name/1`, need not be listed. */
function isAllowed(protocol: string, route: NginxSocketRoute): boolean {
  const name = luaString.match(protocol, "^[^/]*") ?? "";
  for (const listed of route.protocols) if (listed === protocol || listed === name) return true;
  return false;
}

/**
 * The protocols that the pod may be offered, in the client's words; empty where the request stays one of HTTP. Does not
 * come back from a wish that cannot be served: it is refused.
 */
export function wantedProtocols(route: NginxSocketRoute): string {
  const wish = ngx.var.http_upgrade;
  if (wish === undefined || !asksToSwitch()) return "";
  const offered: string[] = [];
  let others = 0;
  for (const word of splitText(wish, ",")) {
    const protocol = trimmed(word);
    const lower = luaString.lower(protocol);
    if (lower !== "h2" && lower !== "h2c") {
      if (isAllowed(lower, route)) offered.push(protocol);
      else others = others + 1;
    }
  }
  if (offered.length === 0) {
    // Asking for HTTP/2 is an offer that can be passed over; asking for WebSocket is not.
    if (others > 0) refuseHead("unsupported_upgrade");
    return "";
  }
  const length = ngx.var.http_content_length;
  const hasBody = (length !== undefined && length !== "0") || ngx.var.http_transfer_encoding !== undefined;
  if (ngx.var.http_expect !== undefined) refuseHead("unsupported_upgrade");
  if (hasBody) refuseHead("malformed_request");
  if (ngx.req.get_method() === "HEAD") refuseHead("unsupported_upgrade");
  return luaTable.concat(offered, ", ");
}
