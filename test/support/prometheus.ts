/** A real Prometheus on a free port, and promtool. */
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { freePort } from "./ports.js";
import { startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export interface Prometheus {
  /** The result of an instant query. */
  query(expression: string): Promise<Sample[]>;
  /** "up", "down" or "unknown", with the last error. */
  target(): Promise<{ health: string; lastError: string }>;
  /** Waits until the query has a result that `isRight` accepts. */
  until(expression: string, isRight?: (samples: Sample[]) => boolean): Promise<Sample[]>;
  /** The names of all alerts that fire. */
  firing(): Promise<string[]>;
  /** The type and help text of a metric. */
  metadata(metric: string): Promise<{ type: string; help: string } | undefined>;
  stop(): Promise<void>;
}

const scraping = (target: string) =>
  `global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs: [{ job_name: tollgate, static_configs: [{ targets: ["${target}"] }] }]
`;

/** @param source host and port that serve /metrics, or a configuration */
export async function startPrometheus(source: string | { config: string }): Promise<Prometheus> {
  const dir = await mkdtemp(join(tmpdir(), "tollgate-prometheus-"));
  const file = join(dir, "prometheus.yml");
  await writeFile(file, typeof source === "string" ? scraping(source) : source.config);
  const port = await freePort();
  const server = startProcess(
    "prometheus",
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(dir, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--log.level=warn",
    ],
    dir,
  );

  async function ask<T>(path: string, query: Record<string, string> = {}): Promise<T> {
    const { body, statusCode } = await request(`http://127.0.0.1:${port}${path}`, { query });
    const answer = (await body.json()) as { status: string; data: T; error?: string };
    if (statusCode !== 200 || answer.status !== "success") throw new Error(`prometheus: ${answer.error}`);
    return answer.data;
  }

  async function query(expression: string): Promise<Sample[]> {
    const { result } = await ask<{ result: { metric: Record<string, string>; value: [number, string] }[] }>(
      "/api/v1/query",
      { query: expression },
    );
    return result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
  }

  async function stop(): Promise<void> {
    await server.end("SIGKILL");
    await rm(dir, { recursive: true, force: true });
  }

  const prometheus: Prometheus = {
    query,
    async target() {
      const { activeTargets } = await ask<{ activeTargets: { health: string; lastError: string }[] }>(
        "/api/v1/targets",
      );
      return activeTargets[0] ?? { health: "unknown", lastError: "it has no target" };
    },
    until: (expression, isRight = (samples) => samples.length > 0) =>
      waitFor(
        `prometheus to answer ${expression}`,
        async () => {
          const samples = await query(expression);
          if (!isRight(samples)) throw new Error(JSON.stringify([samples, await prometheus.target()]));
          return samples;
        },
        { everyMs: 200 },
      ),
    async firing() {
      const { alerts } = await ask<{ alerts: { labels: { alertname: string }; state: string }[] }>("/api/v1/alerts");
      return [
        ...new Set(alerts.filter(({ state }) => state === "firing").map(({ labels }) => labels.alertname)),
      ].sort();
    },
    async metadata(metric) {
      const known = await ask<Record<string, { type: string; help: string }[]>>("/api/v1/metadata", { metric });
      return known[metric]?.[0];
    },
    stop,
  };
  try {
    await waitFor(
      "prometheus to scrape (is it installed?)",
      async () => {
        if (server.hasEnded()) throw new Error(server.output());
        const { health, lastError } = await prometheus.target();
        if (health !== "up") throw new Error(`${health}: ${lastError}`);
        return true;
      },
      { everyMs: 100 },
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return prometheus;
}

export interface Checked {
  exitCode: number | null;
  /** The problems found. */
  complaints: string;
}

/** Runs `promtool check metrics` on a page. */
export function checkPage(text: string): Promise<Checked> {
  return new Promise((resolve, reject) => {
    const child = spawn("promtool", ["check", "metrics"], { stdio: ["pipe", "pipe", "pipe"] });
    let complaints = "";
    child.stdout.on("data", (data) => {
      complaints += data;
    });
    child.stderr.on("data", (data) => {
      complaints += data;
    });
    child.once("error", reject);
    child.once("close", (exitCode) => resolve({ exitCode, complaints }));
    child.stdin.end(text);
  });
}
