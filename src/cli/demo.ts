/** `tollgate demo`: prints the cost of some requests in every profile. */
import { costProfiles, price } from "../core/cost.js";
import { type Command, flagOption, readOptions } from "./command.js";
import { whole } from "./numbers.js";
import { columnsOf, jsonLine, printed, tableLines } from "./printing.js";

const help = `Usage: tollgate demo [--json]

Prints the cost of requests of several sizes in each profile.

  --json  machine-readable

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

export const command: Command = {
  help,
  run(args) {
    const { json } = readOptions(args, { json: flagOption });
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
