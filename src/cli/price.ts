/** `tollgate price`: computes the cost of a request. */
import { baseCost, costProfiles, INVALID_COST, price } from "../core/cost.js";
import { wholeNumber } from "../core/platform.js";
import { type Command, flagOption, readChoice, readOptions, textOption, UsageError } from "./command.js";

const profileNames = Object.keys(costProfiles) as (keyof typeof costProfiles)[];

const help = `Usage: tollgate price --method <method> --bytes <n> [--profile <name>] [--json]

The cost of one request: base(method) + ceil(bytes / quantum) × bandwidth, at most max_cost.

  --method   HTTP method, in upper case
  --bytes    size of request body plus response body, from 0 to 2^53
  --profile  ${profileNames.join(", ")} (default: standard)
  --json     machine-readable

Example:
  tollgate price --method PUT --bytes 1048576
`;

export const command: Command = {
  help,
  run(args) {
    const options = readOptions(args, {
      method: textOption,
      bytes: textOption,
      profile: { type: "string", default: "standard" },
      json: flagOption,
    });
    const profile = readChoice("--profile", options.profile, profileNames);
    const explanation = explain(profile, readMethod(options.method), options.bytes);
    return options.json ? `${JSON.stringify(explanation)}\n` : asText(explanation);
  },
};

function readMethod(method: string | undefined): string {
  if (method === undefined) throw new UsageError("--method is missing, for example --method PUT");
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(method)) {
    throw new UsageError(`--method: ${JSON.stringify(method)} is not an HTTP method`);
  }
  const capitals = method.toUpperCase();
  if (method === capitals) return method;
  throw new UsageError(`--method: "${method}" must be in upper case: ${capitals}`);
}

function explain(name: keyof typeof costProfiles, method: string, text: string | undefined) {
  const profile = costProfiles[name];
  if (text === undefined) throw new UsageError("--bytes is missing, for example --bytes 1048576");
  const bytes = wholeNumber(text);
  const cost = price(profile, method, bytes);
  // Above 2^53, parsing rounds to another number.
  if (cost === INVALID_COST || BigInt(text) !== BigInt(bytes)) {
    throw new UsageError(`--bytes: ${JSON.stringify(text)} is not an integer from 0 to 9007199254740992`);
  }
  const { quantum, bandwidth, maxCost } = profile;
  const base = baseCost(profile, method);
  const quanta = Math.ceil(bytes / quantum);
  const clamped = base + quanta * bandwidth > maxCost;
  return { profile: name, method, bytes, cost, base, quantum, quanta, bandwidth, max_cost: maxCost, clamped };
}

function asText(it: ReturnType<typeof explain>): string {
  const sum = it.base + it.quanta * it.bandwidth;
  const lines = [
    `${it.cost} ${it.cost === 1 ? "token" : "tokens"} for ${it.method} with ${it.bytes} ${it.bytes === 1 ? "byte" : "bytes"} (profile ${it.profile})`,
    `  base       ${it.base}`,
    `  bandwidth  ${it.quanta * it.bandwidth} = ceil(${it.bytes} / ${it.quantum}) × ${it.bandwidth}`,
    it.clamped ? `  sum        ${sum}, clamped to ${it.max_cost}` : `  sum        ${sum}`,
  ];
  return `${lines.join("\n")}\n`;
}
