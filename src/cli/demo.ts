/** `tollgate demo`: prints the cost of some requests in every profile, sends light traffic to a gateway, or runs a small backend. */
import { parseAddress } from "../config/values.js";
import { costProfiles, price } from "../core/cost.js";
import { startDemoBackend } from "../service/process/demo-backend.js";
import { startDemoTraffic } from "../service/process/demo-traffic.js";
import { type Command, flagOption, readOptions, textOption, UsageError } from "./command.js";
import { readWhole, whole } from "./numbers.js";
import { columnsOf, jsonLine, printed, tableLines } from "./printing.js";

const help = `Usage: tollgate demo [--json]
       tollgate demo --traffic [--url URL] [--seconds N]
       tollgate demo --backend HOST:PORT

Prints the cost of requests of several sizes in each profile. With --traffic it sends light traffic of five apps to a
gateway on this machine, about 30 requests per second, so that status and dashboard show activity. With --backend it runs
a small HTTP server, so that there is something behind a gateway, nginx or Envoy: /api/hello, /api/big?bytes=N, /api/echo.

  --json     machine-readable
  --traffic  send requests until Ctrl-C, then print the responses by status
  --url      the gateway (default: http://127.0.0.1:8080)
  --seconds  end after this time
  --backend  run the server until Ctrl-C; repeat for several

Examples:
  tollgate demo
  tollgate demo --traffic --seconds 60
  tollgate demo --backend 127.0.0.1:9001
`;

const methods = ["GET", "DELETE", "PUT"];
const sizes: [label: string, bytes: number][] = [
  ["0 B", 0],
  ["1 KiB", 1024],
  ["64 KiB", 64 * 1024],
  ["1 MiB", 1024 ** 2],
  ["1 GiB", 1024 ** 3],
];

function parsedUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** Returns lines with the number of responses by status. */
async function sendTraffic(options: { url?: string | undefined; seconds?: string | undefined }): Promise<string[]> {
  const url = parsedUrl(options.url ?? "http://127.0.0.1:8080");
  if (url?.protocol !== "http:") throw new UsageError("--url: must be an http:// URL");
  if (!["127.0.0.1", "localhost", "[::1]"].includes(url.hostname)) {
    throw new UsageError("--url: must be on this machine (127.0.0.1, localhost or [::1])");
  }
  const seconds =
    options.seconds === undefined ? undefined : readWhole("--seconds", options.seconds, { least: 1, most: 86_400 });
  const statuses = new Map<number, number>();
  const answered = (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const traffic = startDemoTraffic({ url: url.origin, answered });
  await untilStopped(seconds);
  traffic.stop();
  if (statuses.size === 0) return ["no response"];
  const shown = [...statuses].sort(([one], [other]) => one - other);
  return shown.map(([status, count]) => `${status === 0 ? "failed" : status}: ${whole(count)}`);
}

async function runBackends(addresses: string[]): Promise<string[]> {
  const unusable = addresses.find((address) => parseAddress(address) === undefined);
  if (unusable !== undefined) throw new UsageError(`--backend: ${JSON.stringify(unusable)} is not host:port`);
  const backends: Awaited<ReturnType<typeof startDemoBackend>>[] = [];
  try {
    for (const address of addresses) backends.push(await startDemoBackend(address));
    const urls = backends.map(({ target }) => `http://${target}/api/hello`);
    process.stdout.write(`A demo backend is running. Press Ctrl-C to stop.\n  ${urls.join("\n  ")}\n`);
    await untilStopped();
  } finally {
    await Promise.all(backends.map((backend) => backend.close()));
  }
  return [];
}

function untilStopped(seconds?: number): Promise<void> {
  return new Promise((resolve) => {
    process.once("SIGINT", resolve);
    process.once("SIGTERM", resolve);
    if (seconds !== undefined) setTimeout(resolve, seconds * 1000);
  });
}

export const command: Command = {
  help,
  async run(args) {
    const options = readOptions(args, {
      json: flagOption,
      traffic: flagOption,
      url: textOption,
      seconds: textOption,
      backend: { type: "string", multiple: true },
    });
    const { json } = options;
    if (options.backend !== undefined) return printed(await runBackends(options.backend));
    if (options.traffic) return printed(await sendTraffic(options));
    if (options.url !== undefined || options.seconds !== undefined) {
      throw new UsageError("--url and --seconds are for --traffic");
    }
    const prices = Object.entries(costProfiles).flatMap(([name, profile]) =>
      methods.map((method) => ({
        title: `${name} ${method}`,
        costs: sizes.map(([, bytes]) => ({ profile: name, method, bytes, cost: price(profile, method, bytes) })),
      })),
    );
    if (json) return jsonLine(prices.flatMap(({ costs }) => costs));
    const rows = prices.map(({ title, costs }) => [title, ...costs.map(({ cost }) => whole(cost))]);
    return printed([
      "Welcome to tollgate: rate and connection limits shared by many proxies.",
      "",
      ...tableLines(["tokens for", ...sizes.map(([label]) => `>${label}`)], rows, columnsOf()),
      "",
      "To see how a price is computed: tollgate price --method PUT --bytes 1048576",
    ]);
  },
};
