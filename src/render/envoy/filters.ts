/** The HTTP filters: health check of a load balancer, the rate limit decision, the router. */
import type { Config } from "../../config/schema.js";
import { DEFAULT_APP } from "../../core/identity.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { extension, grpcService, seconds } from "./common.js";
import { type EnvoyRenderOptions, SCRIPT } from "./options.js";

const FILTERS = "extensions.filters.http";
export const MODULE = "envoy.filters.http.dynamic_modules";
/** The domain in which the service limits apps; see docs/ENVOY.md. */
const DOMAIN = "tollgate";

export function httpFilters(config: Config, options: EnvoyRenderOptions): YamlData[] {
  return [
    ...health(options),
    ...tollgateFilters(config, options),
    extension("envoy.filters.http.router", `${FILTERS}.router.v3.Router`, { suppress_envoy_headers: true }),
  ];
}

/** The filters that decide. */
export function tollgateFilters(config: Config, options: EnvoyRenderOptions): YamlSection[] {
  if (options.mode === "rls") return [untrusted(config), rateLimit(config)];
  return [dynamicModule(options)];
}

const MODULE_CONFIG: YamlSection = { name: "tollgate", do_not_close: true, metrics_namespace: "tollgate" };

/** Through it the module learns that Envoy exits. */
export function moduleExtension(): YamlSection {
  return extension(
    "envoy.bootstrap.dynamic_modules",
    "extensions.bootstrap.dynamic_modules.v3.DynamicModuleBootstrapExtension",
    { dynamic_module_config: MODULE_CONFIG, extension_name: "tollgate" },
  );
}

/** The library is libtollgate.so, in the folder of ENVOY_DYNAMIC_MODULES_SEARCH_PATH. */
function dynamicModule({ path }: EnvoyRenderOptions): YamlSection {
  return {
    "# Decides from a lease of tokens that all workers share; reads the script again when it is replaced.": NOTE,
    ...extension(MODULE, `${FILTERS}.dynamic_modules.v3.DynamicModuleFilter`, {
      dynamic_module_config: MODULE_CONFIG,
      filter_name: "tollgate",
      filter_config: { "@type": "type.googleapis.com/google.protobuf.StringValue", value: `${path}/${SCRIPT}` },
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

function rateLimit(config: Config): YamlSection {
  return {
    "# Calls the service for each request.": NOTE,
    ...extension("envoy.filters.http.ratelimit", `${FILTERS}.ratelimit.v3.RateLimit`, {
      domain: DOMAIN,
      "# Answer 503 if the service is unavailable. (If only the store is, the service applies on_store_failure.)": NOTE,
      failure_mode_deny: true,
      status_on_error: { code: "ServiceUnavailable" },
      "# Longer than lease.timeout_ms, the maximum duration of a decision. Envoy's default is 20 ms.": NOTE,
      timeout: seconds(config.lease.timeout_ms + 200),
      rate_limit_service: { transport_api_version: "V3", grpc_service: grpcService() },
      "# The app from its header, otherwise the default app. These replace rate_limits of routes and virtual hosts.":
        NOTE,
      rate_limits: descriptors(config),
    }),
  };
}

/** Two, because Envoy sends no descriptor whose header is missing. */
function descriptors({ identity }: Config): YamlData[] {
  const header = identity.app_header.toLowerCase();
  return [
    { actions: [{ request_headers: { header_name: header, descriptor_key: "app_id" } }] },
    {
      actions: [
        {
          header_value_match: {
            descriptor_key: "app_id",
            descriptor_value: DEFAULT_APP,
            expect_match: false,
            headers: [{ name: header, present_match: true }],
          },
        },
      ],
    },
  ];
}

/** Removes identity and forwarding headers of untrusted clients. */
function untrusted({ identity }: Config): YamlSection {
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
