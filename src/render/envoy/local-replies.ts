/** Replaces responses that Envoy generates itself by those of the gateway. */
import { gatewayRefusal, type Refusal } from "../../core/refusals.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { extension } from "./common.js";

export const TWO_HOSTS = gatewayRefusal("malformed_request");
export const NO_ROUTE = gatewayRefusal("no_route");
export const BODY_TOO_LARGE = gatewayRefusal("body_too_large");
const UNSUPPORTED_UPGRADE = gatewayRefusal("unsupported_upgrade");

/** The name of the route that matches if no other does. */
export const NO_ROUTE_NAME = "no_route";

/** Excludes other 403 responses, such as the script's for an unknown app. */
const REJECTED = 'response.code_details == "upgrade_failed"';

export function localReplies(): YamlSection {
  return {
    "# Replaces Envoy's 403 for upgrades that no route offers.": NOTE,
    local_reply_config: {
      mappers: [
        mapper(`${REJECTED} && xds.route_name == "${NO_ROUTE_NAME}"`, NO_ROUTE),
        mapper(REJECTED, UNSUPPORTED_UPGRADE),
      ],
    },
  };
}

function mapper(expression: string, { status, body }: Refusal): YamlData {
  const wasForbidden = { comparison: { op: "EQ", value: { default_value: 403, runtime_key: "tollgate.none" } } };
  const cel = extension(
    "envoy.access_loggers.extension_filters.cel",
    "extensions.access_loggers.filters.cel.v3.ExpressionFilter",
    { expression },
  );
  return {
    filter: { and_filter: { filters: [{ status_code_filter: wasForbidden }, { extension_filter: cel }] } },
    status_code: status,
    body: { inline_string: body },
    body_format_override: {
      text_format_source: { inline_string: "%LOCAL_REPLY_BODY%" },
      content_type: "application/json",
    },
    headers_to_add: [{ header: { key: "connection", value: "close" }, append_action: "OVERWRITE_IF_EXISTS_OR_ADD" }],
  };
}
