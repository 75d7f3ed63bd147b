/** The access log that Envoy sends to the service, limited to streams that the script has marked. */
import type { Config } from "../../config/schema.js";
import { renewalMs } from "../../core/slot-lease.js";
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { upgradingRoutes } from "../common.js";
import { extension, grpcService, seconds } from "./common.js";
import type { EnvoyRenderOptions } from "./options.js";

/** The namespace of the script's dynamic metadata. */
const NAMESPACE = "tollgate";
const LOG_NAME = "tollgate";

export function accessLog(config: Config, { mode }: EnvoyRenderOptions): YamlSection {
  if (mode === "rls") return {};
  // Streams that hold a slot or may hold one. The script clears the mark when it knows that there is none.
  const sockets = marked("connection", { string_match: { safe_regex: { regex: ".+" } } });
  // Streams that the service must settle, once, when they end.
  const settled = [marked("settle", { bool_match: true }), { log_type_filter: { types: ["DownstreamEnd"] } }];
  return {
    "# Reports ended streams to the service: their sizes, if these were not known before, and released slots.": NOTE,
    access_log: [
      {
        name: "envoy.access_loggers.http_grpc",
        filter: { or_filter: { filters: [sockets, { and_filter: { filters: settled } }] } },
        ...extension("envoy.access_loggers.http_grpc", "extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig", {
          common_config: {
            log_name: LOG_NAME,
            transport_api_version: "V3",
            grpc_service: grpcService(config),
            buffer_flush_interval: "0.05s",
            buffer_size_bytes: 16_384,
          },
        }),
      },
    ],
    ...renewals(config),
  };
}

/** At the renewal interval of the shortest lease, so that an entry may be lost. */
function renewals(config: Config): YamlSection {
  const leases = upgradingRoutes(config).map(({ connections }) => connections.lease_s);
  if (leases.length === 0) return {};
  return {
    "# Also reports open streams, which renews the leases of their slots.": NOTE,
    access_log_options: { access_log_flush_interval: seconds(Math.floor(renewalMs(Math.min(...leases) * 1000))) },
  };
}

function marked(field: string, value: YamlData): YamlData {
  return {
    metadata_filter: {
      matcher: { filter: NAMESPACE, path: [{ key: field }], value },
      match_if_key_not_found: false,
    },
  };
}
