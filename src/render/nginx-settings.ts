/** What the nginx plane must know of a configuration: the same apps, prices and rules that the Node gateway gets. */
import { createHash } from "node:crypto";
import { configVersion, identitySettings, leasePolicy, limitedApps } from "../config/rooms.js";
import type { Config } from "../config/schema.js";
import { parseAddress } from "../config/values.js";
import type { NginxSettings, ServiceAddress } from "../planes/nginx/settings.js";
import { type LuaData, luaTable } from "./lua-table.js";
import type { RenderOptions } from "./nginx.js";
import { RenderError } from "./render-error.js";

export function nginxSettings(config: Config, options: RenderOptions): NginxSettings {
  const identity = identitySettings(config);
  const token = config.control.plane_token;
  if (token === "") throw new RenderError("control.plane_token is empty: nginx would not be let in by the service");
  return {
    node: options.node ?? "",
    services: serviceAddresses(config, options),
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

/** Where the services listen for data planes. Unless said otherwise: where this configuration's own one does. */
function serviceAddresses(config: Config, { services }: RenderOptions): ServiceAddress[] {
  if (services.length === 0) {
    const own = parseAddress(config.control.listen)!;
    const everywhere = own.host === "0.0.0.0" || own.host === "::";
    return [{ host: everywhere ? "127.0.0.1" : own.host, port: own.port }];
  }
  return services.map((text) => {
    const at = parseAddress(text);
    if (at === undefined || at.port === 0) throw new RenderError(`--service ${text}: must be host:port`);
    return at;
  });
}

export function settingsLua(settings: NginxSettings): string {
  return `-- Written by \`tollgate render nginx\`; it holds the token of the data planes.
return ${luaTable(settings as unknown as LuaData)}
`;
}
