/** `tollgate config`: the layer of the configuration that lives in the store and holds over the files of all nodes. */

import { readFileSync } from "node:fs";
import { parse, stringify } from "yaml";
import { quoted } from "../config/problem.js";
import type { LayerReply } from "../service/operations/contract/contract.js";
import * as contract from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import { expectWords, type OperatorCall, operatorCommand, textOption } from "./control/operator-command.js";
import { readWhole } from "./numbers.js";
import { type Line, toned } from "./printing.js";

const help = `Usage: tollgate config get
       tollgate config put FILE [--revision N]
       tollgate config clear

The layer in the store: options that hold over the file of every service of the cluster, at once. It is checked together
with the file before it is written; what is not right is refused and nothing changes. Secrets are not shown by get.

  put FILE      a YAML or JSON file with the options; - reads stdin. It replaces the whole layer
  --revision N  only where the layer still has this revision, as get shows it

Examples:
  tollgate config put limits.yaml --reason "black friday"
  tollgate config get > limits.yaml
  echo 'apps: { video-service: { guaranteed: 5000 } }' | tollgate config put -
`;

const path = "/admin/ratelimit/config";

export const configCommand = operatorCommand({
  name: "config",
  summary: "Get, put or clear the layer of the configuration in the store",
  help,
  options: { revision: { type: "string" } },
  isOrder: true,
  async run(call) {
    const [what] = call.words;
    if (textOption(call.values, "revision") !== undefined && what !== "put") {
      throw new UsageError("--revision goes with put");
    }
    if (what === undefined) throw new UsageError("get, put or clear is missing");
    if (what === "get") return get(call);
    if (what === "put") return put(call);
    if (what === "clear") return clear(call);
    throw new UsageError(`there is no config ${quoted(what)}; there are get, put and clear`);
  },
});

async function get({ client, words }: OperatorCall) {
  expectWords(words, ["get"]);
  const reply = await client.call({ method: "GET", path, reply: contract.layerReply });
  return { reply, lines: () => layerLines(reply) };
}

async function put({ client, words, values, signature }: OperatorCall) {
  expectWords(words, ["put", "FILE"]);
  const revision = textOption(values, "revision");
  const expected =
    revision === undefined
      ? {}
      : { expected_revision: readWhole("--revision", revision, { least: 0, most: Number.MAX_SAFE_INTEGER }) };
  const body = { config: readLayer(words[1] ?? ""), ...expected, ...signature };
  const reply = await client.call({ method: "PUT", path, body, reply: contract.layerReply });
  return { reply, lines: () => writtenLines(reply) };
}

async function clear({ client, words, signature }: OperatorCall) {
  expectWords(words, ["clear"]);
  // An empty layer is none; and unlike a DELETE, this says who and why.
  const body = { config: {}, ...signature };
  const reply = await client.call({ method: "PUT", path, body, reply: contract.layerReply });
  return { reply, lines: () => writtenLines(reply) };
}

/** The service checks what the options mean; here it is only read. */
export function readLayer(file: string): Record<string, unknown> {
  const name = file === "-" ? "stdin" : file;
  let read: unknown;
  try {
    read = parse(readFileSync(file === "-" ? 0 : file, "utf8"), { maxAliasCount: 100 });
  } catch (error) {
    const reason = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
    throw new UsageError(`${name} cannot be read: ${reason}`);
  }
  if (typeof read === "object" && read !== null && !Array.isArray(read)) return read as Record<string, unknown>;
  throw new UsageError(`${name} must hold options with values, such as apps: { video: { guaranteed: 5000 } }`);
}

/** YAML that `put` takes again; the rest is in comments. */
export function layerLines({ revision, config, config_version: version }: LayerReply): Line[] {
  const about: Line = [toned("faint", `# revision ${revision}, configuration ${version}`)];
  if (Object.keys(config).length === 0) return [about, [toned("faint", "# the layer is empty")]];
  return [
    about,
    ...stringify(config)
      .trimEnd()
      .split("\n")
      .map((line): Line => [line]),
  ];
}

function writtenLines({ revision, config, config_version: version }: LayerReply): Line[] {
  const names = Object.keys(config);
  const what = names.length === 0 ? "the layer is empty" : `the layer sets ${names.join(", ")}`;
  return [[`revision ${revision}: ${what}; configuration `, toned("strong", version)]];
}
