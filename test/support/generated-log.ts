/** Generates access logs from a seed, in every format that `tollgate simulate` reads. */

import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { createRandom } from "./random.js";

export interface GeneratedRequest {
  /** Milliseconds since 1970. */
  at: number;
  app: string;
  method: string;
  path: string;
  requestBytes: number;
  responseBytes: number;
  durationMs: number;
}

export interface GeneratedLog {
  requests: number;
  seconds: number;
  /** Apps and their shares of the load. */
  apps: [app: string, share: number][];
  seed?: number;
}

export const LOG_START_MS = Date.parse("2026-07-28T12:00:00Z");

function pick(apps: GeneratedLog["apps"], point: number): string {
  let below = 0;
  for (const [app, share] of apps) {
    below += share;
    if (point < below) return app;
  }
  return apps[0]![0];
}

/** In the order of arrival. The load comes in waves, so that limits are reached and left again. */
export function* generateRequests({ requests, seconds, apps, seed = 1 }: GeneratedLog): Generator<GeneratedRequest> {
  const random = createRandom(seed);
  const total = apps.reduce((sum, [, share]) => sum + share, 0);
  for (let i = 0; i < requests; i++) {
    const even = (i / requests) * seconds;
    // In waves of 20 seconds, from 0.6 times the mean to 3 times as much.
    const wave = even + 2.2 * Math.sin((even * 2 * Math.PI) / 20);
    const at = LOG_START_MS + Math.max(Math.round(wave * 1000), 0);
    const app = pick(apps, random() * total);
    const kind = random();
    const method = kind < 0.8 ? "GET" : kind < 0.9 ? "PUT" : kind < 0.95 ? "POST" : "DELETE";
    const requestBytes = method === "PUT" || method === "POST" ? Math.floor(random() * 100_000) : 0;
    const responseBytes = Math.floor(random() ** 4 * 500_000);
    yield {
      at,
      app,
      method,
      path: `/${app}/item/${i}`,
      requestBytes,
      responseBytes,
      durationMs: Math.floor(random() * 200),
    };
  }
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** nginx's combined format (whole seconds, no request size), followed by duration and app. */
export function combinedLine(one: GeneratedRequest, extra = true): string {
  const iso = new Date(one.at).toISOString();
  const time = `${iso.slice(8, 10)}/${MONTHS[Number(iso.slice(5, 7)) - 1]}/${iso.slice(0, 4)}:${iso.slice(11, 19)} +0000`;
  const tail = extra ? ` ${one.app} rlen=${one.requestBytes}` : "";
  return `10.1.2.3 - ${one.app} [${time}] "${one.method} ${one.path} HTTP/1.1" 200 ${one.responseBytes} "-" "curl/8.0"${tail}`;
}

export function envoyLine(one: GeneratedRequest): string {
  const time = new Date(one.at).toISOString();
  return `[${time}] "${one.method} ${one.path} HTTP/2" 200 - ${one.requestBytes} ${one.responseBytes} ${one.durationMs} 7 "10.1.2.3" "curl/8.0" "9c2e" "${one.app}" "10.0.0.9:80"`;
}

export function jsonLine(one: GeneratedRequest): string {
  return JSON.stringify({
    start_time: new Date(one.at).toISOString(),
    method: one.method,
    path: one.path,
    app_id: one.app,
    status: 200,
    bytes_received: one.requestBytes,
    bytes_sent: one.responseBytes,
    duration: one.durationMs,
  });
}

/** Writes a log in chunks. */
export async function writeLog(file: string, lines: Iterable<string>): Promise<void> {
  const stream = createWriteStream(file, { highWaterMark: 1 << 20 });
  let some: string[] = [];
  const flush = async () => {
    some.push("");
    if (!stream.write(some.join("\n"))) await once(stream, "drain");
    some = [];
  };
  for (const line of lines) {
    some.push(line);
    if (some.length === 5_000) await flush();
  }
  if (some.length > 0) await flush();
  stream.end();
  await once(stream, "finish");
}
