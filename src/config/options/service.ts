/** Maps the configuration to the options of the service: access control and metrics. */
import type { Config } from "../schema.js";
import { descriptorLabels } from "./descriptors.js";
import { appLimits } from "./limits.js";

/** Who may call the control listener. */
export interface AccessOptions {
  /** Empty: the admin API is disabled. */
  adminToken: string;
  /** Empty: the API of data planes is disabled. */
  planeToken: string;
  /** Addresses and networks that may call. */
  allow: readonly string[];
  /** Accepted Host names besides localhost and plain addresses. */
  hosts: readonly string[];
}

export function accessOptions({ control }: Config): AccessOptions {
  return {
    adminToken: control.admin_token,
    planeToken: control.plane_token,
    allow: control.allow,
    hosts: control.hosts,
  };
}

export interface MetricsOptions {
  /** Without metrics, the counters for status and apps are still kept. */
  enabled: boolean;
  /** All names that decisions are counted under: apps, then descriptor limits, in the order of the configuration. */
  apps: readonly string[];
  /** This many of them have their own label; the others share one. */
  appLabels: number;
}

export function metricsOptions(config: Config): MetricsOptions {
  const { enabled, app_labels } = config.metrics;
  return {
    enabled,
    apps: [...appLimits(config).map(({ id }) => id), ...descriptorLabels(config)],
    appLabels: app_labels,
  };
}
