/** What a request passes on its way to the route: the health check of a balancer, who decides, the router. */
import type { Config } from "../../config/schema.js";
import { NOTE, type YamlData } from "../commented-yaml.js";
import { type EnvoyRenderOptions, SCRIPT } from "./envoy.js";
import { service } from "./service.js";
import { extension } from "./words.js";

const FILTERS = "extensions.filters.http";
export const LUA = "envoy.filters.http.lua";
export const RATE_LIMIT = "envoy.filters.http.ratelimit";
/** In which the service finds the app by its id; see docs/ENVOY.md. */
const DOMAIN = "tollgate";

export function httpFilters(config: Config, options: EnvoyRenderOptions): YamlData[] {
  return [
    ...health(options),
    ...(options.mode === "lua" ? [script(options)] : [...untrusted(config), rateLimit(config)]),
    extension("envoy.filters.http.router", `${FILTERS}.router.v3.Router`, { suppress_envoy_headers: true }),
  ];
}

export function scriptFile({ path }: EnvoyRenderOptions): YamlData {
  return { filename: `${path}/${SCRIPT}` };
}

function script(options: EnvoyRenderOptions): YamlData {
  const isElsewhere = options.dynamic === true;
  return {
    "# Decides from a lease of tokens, and asks the service about once per thousand requests.": NOTE,
    ...(isElsewhere
      ? { "# The script itself comes with the routes, so that another one ends no connection.": NOTE }
      : {}),
    ...extension(LUA, `${FILTERS}.lua.v3.Lua`, {
      default_source_code: isElsewhere ? undefined : scriptFile(options),
      "# It changes nothing by which a route is found.": NOTE,
      clear_route_cache: false,
    }),
  };
}

/** Answered by Envoy itself, and not well while it drains. */
function health({ balancer }: EnvoyRenderOptions): YamlData[] {
  if (balancer === undefined) return [];
  return [
    {
      "# The balancer's question, answered by Envoy itself; 503 while it drains (POST /healthcheck/fail of its admin pages).":
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
    "# Asks the service for each request; what it is asked stands with the routes.": NOTE,
    ...extension(RATE_LIMIT, `${FILTERS}.ratelimit.v3.RateLimit`, {
      domain: DOMAIN,
      "# A service that is gone is 503, not a way around the limit. The app's on_store_failure is the service's to apply.":
        NOTE,
      failure_mode_deny: true,
      status_on_error: { code: "ServiceUnavailable" },
      "# Envoy's default is 20 ms. A service may take as long for a decision as lease.timeout_ms says.": NOTE,
      timeout: timeout(config),
      rate_limit_service: { transport_api_version: "V3", grpc_service: service(config) },
    }),
  };
}

/** Longer than a decision may take in the service: who waits that long gets its answer. */
function timeout({ lease }: Config): string {
  return `${(lease.timeout_ms + 200) / 1000}s`;
}

/** What somebody says who is not believed is taken away before anybody reads it. */
function untrusted({ identity }: Config): YamlData[] {
  const removed = [identity.app_header, identity.user_header, "X-Forwarded-Host"];
  const word =
    "# Who an app is, only the trusted may say (identity.trusted_hops); of others these headers are dropped.";
  const removal = extension("envoy.filters.http.header_mutation", `${FILTERS}.header_mutation.v3.HeaderMutation`, {
    mutations: { request_mutations: removed.map((name) => ({ remove: name })) },
  });
  if (identity.trusted_hops.length === 0) return [{ [word]: NOTE, ...removal }];
  return [
    {
      [word]: NOTE,
      ...extension("tollgate.untrusted", "extensions.common.matching.v3.ExtensionWithMatcher", {
        extension_config: removal,
        xds_matcher: trusted(identity.trusted_hops),
      }),
    },
  ];
}

function trusted(networks: readonly string[]): YamlData {
  const skip = {
    action: extension("skip", "extensions.filters.common.matcher.action.v3.SkipFilter"),
  };
  const ranges = networks.map((network) => {
    const [address = "", bits = ""] = network.split("/");
    return { address_prefix: address, prefix_len: Number(bits) };
  });
  return {
    matcher_tree: {
      input: extension("source-ip", "extensions.matching.common_inputs.network.v3.SourceIPInput"),
      custom_match: {
        name: "ip-matcher",
        typed_config: {
          "@type": "type.googleapis.com/xds.type.matcher.v3.IPMatcher",
          range_matchers: [{ ranges, on_match: skip }],
        },
      },
    },
  };
}
