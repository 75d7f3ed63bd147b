/** `tollgate demo`: a greeting and the price list, computed by the same code that decides. */

import { costProfiles, price } from "../core/cost.js";
import { type Command, readOptions, table } from "./command.js";
import { jsonLine } from "./printing.js";

const help = `Usage: tollgate demo [--json]

Greets, and prints what requests of several sizes cost in each profile.

  --json  the prices, machine-readable

Example:
  tollgate demo
`;

const methods = ["GET", "DELETE", "PUT"];
const sizes: [label: string, bytes: number][] = [
  ["0 B", 0],
  ["1 KiB", 1024],
  ["64 KiB", 64 * 1024],
  ["1 MiB", 1024 ** 2],
  ["1 GiB", 1024 ** 3],
];

export const demoCommand: Command = {
  name: "demo",
  summary: "A greeting and the price list",
  help,
  run(args) {
    const { json } = readOptions(args, { json: { type: "boolean", default: false } });
    if (json) return jsonLine(priceList());
    const rows = Object.entries(costProfiles).flatMap(([name, profile]) =>
      methods.map((method) => [
        `${name} ${method}`,
        ...sizes.map(([, bytes]) => price(profile, method, bytes).toLocaleString("en-US")),
      ]),
    );
    const prices = table([["tokens for", ...sizes.map(([label]) => label)], ...rows]);
    const greeting = "Welcome to tollgate: limits that hold when many proxies share them.";
    return `${greeting}\n\n${prices}\nHow a price comes about: tollgate price --method PUT --bytes 1048576\n`;
  },
};

function priceList() {
  return Object.entries(costProfiles).flatMap(([name, profile]) =>
    methods.flatMap((method) =>
      sizes.map(([, bytes]) => ({ profile: name, method, bytes, cost: price(profile, method, bytes) })),
    ),
  );
}
