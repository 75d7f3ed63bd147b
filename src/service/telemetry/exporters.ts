/** Loads the OpenTelemetry SDK, which is optional, and observes its exporters. */
import type { OtelOptions } from "../../config/options/service.js";
import type { Log } from "../../shared/log.js";
import type { Exporter } from "../metrics/labels.js";

export interface TelemetryOptions {
  otel: OtelOptions;
  /** The name of the process in traces and metrics. */
  node: string;
  /** Of Tollgate. */
  version: string;
  failed(exporter: Exporter): void;
  log: Log;
}

/** An attempt that takes longer has failed. */
export const EXPORT_TIMEOUT_MS = 10_000;

/** Fails with the command that installs the packages. */
export async function loaded<T>(packages: Promise<T>): Promise<T> {
  try {
    return await packages;
  } catch (error) {
    const names = "api resources sdk-metrics sdk-trace exporter-metrics-otlp-proto exporter-trace-otlp-proto";
    const command = `npm install ${names
      .split(" ")
      .map((name) => `@opentelemetry/${name}`)
      .join(" ")}`;
    throw new Error(`otel.endpoint: the packages of OpenTelemetry are not installed: ${command}`, { cause: error });
  }
}

export function attributesOf({ otel, node, version }: TelemetryOptions) {
  return { "service.name": otel.serviceName, "service.instance.id": node, "service.version": version };
}

/** @param path of the signal, appended to the endpoint */
export function httpOptions({ endpoint, authorization }: OtelOptions, path: string) {
  return {
    url: `${endpoint.replace(/\/$/, "")}${path}`,
    headers: authorization === "" ? {} : { authorization },
    timeoutMillis: EXPORT_TIMEOUT_MS,
    concurrencyLimit: 2,
  };
}

interface ExportResult {
  code: number;
  error?: Error;
}

interface AnyExporter {
  export(items: never, done: (result: ExportResult) => void): void;
}

/** Counts failed exports, and logs when they begin and end. */
export function observe(exporter: AnyExporter, name: Exporter, { failed, log }: TelemetryOptions): void {
  const inner = exporter.export.bind(exporter);
  let isFailing = false;
  exporter.export = (items, done) =>
    inner(items, (result) => {
      if (result.code !== 0) {
        failed(name);
        if (!isFailing) log.warn({ exporter: name, err: result.error }, "OpenTelemetry export failed");
      } else if (isFailing) log.info({ exporter: name }, "OpenTelemetry export succeeds again");
      isFailing = result.code !== 0;
      done(result);
    });
}
