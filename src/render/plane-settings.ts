/** What every data plane in Lua must know of a configuration: the same apps, prices and rules that the Node gateway gets. */
import { createHash } from "node:crypto";
import { configVersion, identitySettings, leasePolicy, limitedApps } from "../config/rooms.js";
import type { Config } from "../config/schema.js";
import { parseAddress } from "../config/values.js";
import type { NginxSettings, ServiceAddress } from "../planes/nginx/settings.js";
import { RenderError } from "./render-error.js";

export type PlaneSettings = Pick<
  NginxSettings,
  | "node"
  | "planeToken"
  | "configVersion"
  | "lease"
  | "timeoutMs"
  | "failOpenTokens"
  | "identity"
  | "headerCount"
  | "apps"
>;

/** `plane` is what the reader calls it, for complaints. */
export function planeSettings(config: Config, node: string, plane: string): PlaneSettings {
  const identity = identitySettings(config);
  const token = config.control.plane_token;
  if (token === "") throw new RenderError(`control.plane_token is empty: ${plane} would not be let in by the service`);
  return {
    node,
    planeToken: token,
    configVersion: configVersion(config),
    lease: leasePolicy(config),
    timeoutMs: config.lease.timeout_ms,
    failOpenTokens: config.fail_open_tokens,
    identity: {
      appHeader: identity.appHeader.toLowerCase(),
      userHeader: identity.userHeader.toLowerCase(),
      apiKeyHeader: identity.apiKeyHeader.toLowerCase(),
      rules: identity.rules,
      apiKeys: Object.fromEntries(Object.entries(identity.apiKeys).map(([key, app]) => [digest(key), app])),
    },
    headerCount: config.limits.header_count,
    apps: limitedApps(config).map(({ id, guaranteed, burst, priority, borrow, profile, onStoreFailure, dryRun }) => ({
      ...{ id, guaranteed, burst, priority, borrow, profile, onStoreFailure, dryRun },
    })),
  };
}

const digest = (key: string) => createHash("sha1").update(key).digest("base64");

/** Where services listen: as `given`, host:port each, with the option that gave them; else where `own` of the configuration is. */
export function serviceAddresses(given: readonly string[], option: string, own: string): ServiceAddress[] {
  if (given.length > 0) return given.map((text) => addressOf(text, option));
  const { host, port } = parseAddress(own)!;
  const everywhere = host === "0.0.0.0" || host === "::";
  return [{ host: everywhere ? "127.0.0.1" : host, port }];
}

export function addressOf(text: string, option: string): ServiceAddress {
  const at = parseAddress(text);
  if (at === undefined || at.port === 0) throw new RenderError(`${option} ${text}: must be host:port`);
  return at;
}
