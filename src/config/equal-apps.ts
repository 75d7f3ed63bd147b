/** Many apps have the same limits: a configuration holds these limits once, and a message to another process has them once. */
import type { AppConfig, Config } from "./schema.js";

/** A configuration for a message. */
export interface PackedConfig extends Omit<Config, "apps"> {
  apps: {
    /** In the order of the configuration. */
    names: string[];
    /** The position of the limits of each app. */
    limits: number[];
    distinct: AppConfig[];
  };
}

/** Apps with equal limits or profiles share one object. */
export function shareEqualApps(apps: Config["apps"]): Config["apps"] {
  const known = new Map<string, unknown>();
  function shared<V>(value: V): V {
    const text = JSON.stringify(value);
    if (!known.has(text)) known.set(text, value);
    return known.get(text) as V;
  }
  const entries = Object.entries(apps);
  return Object.fromEntries(entries.map(([name, app]) => [name, shared({ ...app, profile: shared(app.profile) })]));
}

export function packConfig({ apps, ...others }: Config): PackedConfig {
  const places = new Map<AppConfig, number>();
  const limits = Object.values(apps).map((app) => {
    const place = places.get(app) ?? places.size;
    places.set(app, place);
    return place;
  });
  return { ...others, apps: { names: Object.keys(apps), limits, distinct: [...places.keys()] } };
}

export function unpackConfig({ apps: { names, limits, distinct }, ...others }: PackedConfig): Config {
  return { ...others, apps: Object.fromEntries(names.map((name, i) => [name, distinct[limits[i]!]!])) };
}
