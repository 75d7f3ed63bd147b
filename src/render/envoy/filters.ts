/** The HTTP filters: health check of a load balancer, the rate limit decision, the router. */
import { hiddenHeaders } from "../../config/options/planes.js";
import type { Config } from "../../config/schema.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { extension, grpcService, seconds } from "./common.js";
import { type EnvoyRenderOptions, SCRIPT } from "./options.js";

const FILTERS = "extensions.filters.http";
export const LUA = "envoy.filters.http.lua";
/** The domain in which the service limits apps; see docs/ENVOY.md. */
const DOMAIN = "tollgate";

export function httpFilters(config: Config, options: EnvoyRenderOptions): YamlData[] {
  return [
    ...health(options),
    ...(options.mode === "lua" ? [script(options)] : [untrusted(config), rateLimit(config)]),
    hidden(config),
    extension("envoy.filters.http.router", `${FILTERS}.router.v3.Router`, { suppress_envoy_headers: true }),
  ];
}

export function scriptFile({ path }: EnvoyRenderOptions): YamlData {
  return { filename: `${path}/${SCRIPT}` };
}

function script(options: EnvoyRenderOptions): YamlData {
  const { dynamic } = options;
  return {
    "# Decides from a lease of tokens; calls the service about once per thousand requests.": NOTE,
    ...(dynamic ? { "# The routes load the script, so that a new script does not close connections.": NOTE } : {}),
    ...extension(LUA, `${FILTERS}.lua.v3.Lua`, {
      default_source_code: dynamic ? undefined : scriptFile(options),
      "# The script changes nothing that affects route selection.": NOTE,
      clear_route_cache: false,
    }),
  };
}

/** Envoy answers the health check itself; it fails while Envoy drains. */
function health({ balancer }: EnvoyRenderOptions): YamlData[] {
  if (balancer === undefined) return [];
  return [
    {
      "# The load balancer's health check. Answers 503 while draining (POST /healthcheck/fail on the admin interface).":
        NOTE,
      ...extension("envoy.filters.http.health_check", `${FILTERS}.health_check.v3.HealthCheck`, {
        pass_through_mode: false,
        headers: [{ name: ":path", string_match: { exact: balancer.healthPath } }],
      }),
    },
  ];
}

function rateLimit(config: Config): YamlData {
  return {
    "# Calls the service for each request. The descriptors are defined with the routes.": NOTE,
    ...extension("envoy.filters.http.ratelimit", `${FILTERS}.ratelimit.v3.RateLimit`, {
      domain: DOMAIN,
      "# Answer 503 if the service is unavailable. (If only the store is, the service applies on_store_failure.)": NOTE,
      failure_mode_deny: true,
      status_on_error: { code: "ServiceUnavailable" },
      "# Longer than lease.timeout_ms, the maximum duration of a decision. Envoy's default is 20 ms.": NOTE,
      timeout: seconds(config.lease.timeout_ms + 200),
      rate_limit_service: { transport_api_version: "V3", grpc_service: grpcService() },
    }),
  };
}

/** Removes identity and forwarding headers of untrusted clients. */
function untrusted({ identity }: Config): YamlData {
  const note = "# Identity headers count only from identity.trusted_hops; those of other clients are removed.";
  const removal = mutation([
    ...removed([identity.app_header, identity.user_header, "X-Forwarded-Host", "Forwarded"]),
    {
      append: {
        header: { key: "X-Forwarded-For", value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%" },
        append_action: "OVERWRITE_IF_EXISTS_OR_ADD",
      },
    },
  ]);
  if (identity.trusted_hops.length === 0) return { [note]: NOTE, ...removal };
  return {
    [note]: NOTE,
    ...extension("tollgate.untrusted", "extensions.common.matching.v3.ExtensionWithMatcher", {
      extension_config: removal,
      xds_matcher: trusted(identity.trusted_hops),
    }),
  };
}

const removed = (names: readonly string[]): YamlData[] => names.map((name) => ({ remove: name }));

function mutation(changes: YamlData[]): YamlSection {
  return extension("envoy.filters.http.header_mutation", `${FILTERS}.header_mutation.v3.HeaderMutation`, {
    mutations: { request_mutations: changes },
  });
}

/** Removes what backends never get, after the decision. */
function hidden(config: Config): YamlData {
  const { app_header, user_header, forward_identity } = config.identity;
  return {
    "# Backends get no API keys, and no other spellings of identity headers, which some servers do not distinguish.":
      NOTE,
    ...mutation(removed([...(forward_identity ? [] : [app_header, user_header]), ...hiddenHeaders(config)])),
  };
}

function trusted(networks: readonly string[]): YamlData {
  const skip = { action: extension("skip", "extensions.filters.common.matcher.action.v3.SkipFilter") };
  const ranges = networks.map((network) => {
    const [address = "", bits = ""] = network.split("/");
    return { address_prefix: address, prefix_len: Number(bits) };
  });
  const predicate = {
    input: extension("source-ip", "extensions.matching.common_inputs.network.v3.SourceIPInput"),
    custom_match: extension("envoy.matching.matchers.ip", "extensions.matching.input_matchers.ip.v3.Ip", {
      cidr_ranges: ranges,
      stat_prefix: "trusted_hops",
    }),
  };
  return { matcher_list: { matchers: [{ predicate: { single_predicate: predicate }, on_match: skip }] } };
}
