/** Reads the upgrade that a request asks for. Upgrades that the route does not accept are refused or ignored. */

import type { NginxSocketRoute } from "../../../config/options/plane-options.js";
import { trimmed } from "../../../core/address.js";
import { splitText } from "../../../core/platform.js";
import { luaString, luaTable } from "../../lua/library.js";
import { isListed } from "../../lua/upgrade.js";
import { refuseHead } from "../http/response.js";
import { ngx } from "../ngx.js";
import { ofLastPod } from "./pods.js";

/** nginx repeats the access phase because no pod answered: see `error_page` in the location. HTTP requests are not retried. */
export function isSecondTry(): boolean {
  return ngx.req.is_internal() && ofLastPod("upstream_header_time") === "-";
}

export function failedStatus(): number {
  return ofLastPod("upstream_status") === "504" ? 504 : 502;
}

function asksToSwitch(): boolean {
  const connection = ngx.var.http_connection;
  if (connection === undefined || ngx.var.server_protocol !== "HTTP/1.1") return false;
  for (const word of splitText(luaString.lower(connection), ",")) if (trimmed(word) === "upgrade") return true;
  return false;
}

/**
 * The protocols to offer to the pod, as the client wrote them; empty if the request stays HTTP. Does not return if the
 * request is refused.
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
      if (isListed(lower, route.protocols)) offered.push(protocol);
      else others = others + 1;
    }
  }
  if (offered.length === 0) {
    // An upgrade to HTTP/2 may be ignored; other upgrades may not.
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
