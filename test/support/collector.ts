/** A real OpenTelemetry Collector on a free port, which passes on what it receives. Built by `build/ensure-receivers.sh`. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { fromRoot } from "../../build/paths.js";
import { freePort } from "./ports.js";
import { startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

export interface Collector {
  readonly url: string;
  stop(): Promise<void>;
}

/** @param destination the URL of an OTLP receiver */
export async function startCollector(destination: string): Promise<Collector> {
  const folder = fromRoot(".cache/collector");
  const [version] = existsSync(folder) ? readdirSync(folder) : [];
  if (version === undefined) throw new Error("no collector: run build/ensure-receivers.sh");
  const dir = mkdtempSync(join(tmpdir(), "tollgate-collector-"));
  const address = `127.0.0.1:${await freePort()}`;
  const config = join(dir, "collector.yaml");
  writeFileSync(
    config,
    `receivers: { otlp: { protocols: { http: { endpoint: "${address}" } } } }
exporters: { otlphttp: { endpoint: "${destination}", compression: none } }
service:
  telemetry: { metrics: { level: none }, logs: { level: warn } }
  pipelines:
    traces: { receivers: [otlp], exporters: [otlphttp] }
    metrics: { receivers: [otlp], exporters: [otlphttp] }
`,
  );
  const server = startProcess(`${folder}/${version}/otelcol`, ["--config", config], dir);
  const url = `http://${address}`;
  async function stop(): Promise<void> {
    await server.end("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  }
  try {
    await waitFor("the collector to listen", async () => {
      if (server.hasEnded()) throw new Error(server.output());
      const { body } = await request(`${url}/v1/traces`);
      await body.dump();
      return true;
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, stop };
}
